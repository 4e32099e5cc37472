package doctor

import "golang.org/x/sys/unix"

// networked names the network file system that a directory is on; empty for a local one.
func networked(dir string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return ""
	}
	switch uint32(s.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "smb"
	case unix.SMB_SUPER_MAGIC:
		return "smb (old)"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case unix.AFS_SUPER_MAGIC:
		return "afs"
	case 0x0bd00bd0: // this and the other numbers are from the file systems' own headers
		return "lustre"
	case 0x47504653:
		return "gpfs"
	case unix.OCFS2_SUPER_MAGIC:
		return "ocfs2"
	case 0x01161970:
		return "gfs2"
	}
	return ""
}

// volatile reports whether a directory is gone after a restart of the machine.
func volatile(dir string) bool {
	var s unix.Statfs_t
	return unix.Statfs(dir, &s) == nil && (uint32(s.Type) == unix.TMPFS_MAGIC || uint32(s.Type) == unix.RAMFS_MAGIC)
}
