//go:build !(linux || darwin || freebsd || openbsd || netbsd || dragonfly)

package pipeline

import "os"

// canFlock is false: this system has no file lock that ends with its process. A worker
// cannot know whether the owner of a scratch directory is alive, so Sweep removes none.
const canFlock = false

func flock(*os.File) error { return nil }
