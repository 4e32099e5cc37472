package doctor

import "syscall"

// networked names the network file system that a directory is on; empty for a local one.
func networked(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return ""
	}
	// The numbers of linux/magic.h and of each file system's own header.
	switch uint32(s.Type) {
	case 0x6969:
		return "nfs"
	case 0xff534d42, 0xfe534d42:
		return "smb"
	case 0x517b:
		return "smb (old)"
	case 0x65735546:
		return "fuse"
	case 0x01021997:
		return "9p"
	case 0x00c36400:
		return "ceph"
	case 0x5346414f:
		return "afs"
	case 0x0bd00bd0:
		return "lustre"
	case 0x47504653:
		return "gpfs"
	case 0x7461636f:
		return "ocfs2"
	case 0x01161970:
		return "gfs2"
	}
	return ""
}

// volatile reports whether a directory is gone after a restart of the machine.
func volatile(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && (uint32(s.Type) == 0x01021994 || uint32(s.Type) == 0x858458f6)
}
