package tree

import "syscall"

const (
	sysFstatat = syscall.SYS_FSTATAT
	sysSyncfs  = 267
)
