package ownport

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listening is the state of a listening socket in /proc/net/tcp.
const listening = "0A"

// Owns reports whether the process pid listens on a TCP port: one of its open
// files is the listening socket. See proc(5). ErrHidden.
func Owns(pid, port int) (bool, error) {
	inodes, err := listeners(port)
	if err != nil {
		return false, err
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return false, fmt.Errorf("list open files of process %d: %w", pid, ErrHidden)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("list open files of process %d: %w", pid, err)
	}
	for _, file := range files {
		target, err := os.Readlink(filepath.Join(dir, file.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok && inodes[strings.TrimSuffix(inode, "]")] {
			return true, nil
		}
	}
	return false, nil
}

// listeners returns the inodes of the sockets that listen on a port.
func listeners(port int) (map[string]bool, error) {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(table)
		if os.IsNotExist(err) {
			continue // no IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("read sockets: %w", err)
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != listening {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseInt(hex, 16, 32); err == nil && int(n) == port {
				inodes[fields[9]] = true
			}
		}
		_ = file.Close()
	}
	return inodes, nil
}
