package upload

import "github.com/cutroom/cutroom/shared/video"

// sniff refuses what certainly is no video, such as text, as early as can be, before
// all of it was sent. Of everything else the probe says what it is.
func sniff(head []byte) error {
	if kind, is := video.OtherKind(head); is {
		return video.Fail(video.UnsupportedMedia, "The file is not a video: it is %s. A video may be in %s.", kind, video.ContainerNames())
	}
	return nil
}
