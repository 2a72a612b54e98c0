package tree

import "syscall"

const (
	sysFstatat = syscall.SYS_NEWFSTATAT
	sysSyncfs  = 306
)
