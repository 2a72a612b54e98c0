// Package threads makes the process independent of threads that it could not get later: a fork bomb in the pod makes
// the kernel refuse new ones, and the Go runtime ends a process that cannot start one.
package threads

import (
	"runtime"
	"sync"
	"syscall"
)

const (
	prSetDumpable   = 4
	prSetTHPDisable = 41
)

// Start makes the runtime create count threads now; it keeps idle ones for ever and takes them first.
func Start(count int) {
	var running, done sync.WaitGroup
	running.Add(count)
	done.Add(count)
	for range count {
		go func() {
			defer done.Done()
			runtime.LockOSThread() // a goroutine that waits while locked keeps its thread: count of them need count threads
			defer runtime.UnlockOSThread()
			running.Done()
			running.Wait()
		}()
	}
	done.Wait()
}

// HideMemory keeps other processes of the same user from reading this one's memory and descriptors.
func HideMemory() error {
	return prctl(prSetDumpable, 0)
}

// AvoidHugePages keeps a small heap small where the node gives huge pages to everybody.
func AvoidHugePages() error {
	if err := prctl(prSetTHPDisable, 1); err != syscall.EINVAL { // gVisor does not know it, nor huge pages
		return err
	}
	return nil
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
