//go:build !unix

package ffmpeg

import "os"

var signalStop, signalGoOn os.Signal // there are none
