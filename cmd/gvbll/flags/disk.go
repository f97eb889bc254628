package flags

import (
	"errors"
	"fmt"
	"syscall"
)

// leastFree is the room in bytes below which a disk counts as full.
const leastFree = 1 << 20

// WithDisk returns err, and says before it that the disk of a folder is full if it is: what failed may be a program that does not
// say so. nil stays nil.
func WithDisk(dir string, err error) error {
	var disk syscall.Statfs_t
	if err == nil || dir == "" || syscall.Statfs(dir, &disk) != nil {
		return err
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < leastFree || errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk of %s is full, %d KiB are free: %w", dir, free>>10, err)
	}
	return err
}
