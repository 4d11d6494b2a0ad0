//go:build linux || darwin

package pipeline

import "golang.org/x/sys/unix"

// freeBytes is what this user may still write below dir.
func freeBytes(dir string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}
