//go:build linux && !amd64 && !arm64

package cage

const auditArch = 0 // its system calls are not filtered

var refusedHere []uintptr
