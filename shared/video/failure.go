package video

import (
	"cmp"

	"github.com/cutroom/cutroom/shared/engine"
)

// Codes of videos that cannot be processed, beside those of package engine. Every one is permanent: the same
// bytes fail the same way, so one attempt is enough.
const (
	UnsupportedMedia engine.Code = "unsupported_media" // not a container that we accept
	CorruptMedia     engine.Code = "corrupt_media"     // the container is known, the content cannot be decoded
	NoVideoStream    engine.Code = "no_video_stream"
	TooManyPixels    engine.Code = "too_many_pixels"
	TooSmall         engine.Code = "too_small"
	TooLong          engine.Code = "too_long"
	TooManyFrames    engine.Code = "too_many_frames"
	TooManyStreams   engine.Code = "too_many_streams"
	TooMuchMetadata  engine.Code = "too_much_metadata" // tags, attached files and indexes that are too large to be read
	EncryptedMedia   engine.Code = "encrypted_media"
)

// Notice is a stable, documented name for what of a source a video lacks that plays
// otherwise. Notices never change their meaning.
type Notice string

// What a video may lack.
const (
	AudioNotDecodable Notice = "audio_not_decodable" // it has sound, of a kind that cannot be decoded
	AudioTruncated    Notice = "audio_truncated"     // its sound could not be decoded to its end
)

var noticeDetails = map[Notice]string{
	AudioNotDecodable: "Its sound is of a kind that we cannot decode, so the video is silent.",
	AudioTruncated:    "Its sound could not be decoded to its end, so the last part of the video is silent.",
}

// Detail is what the user is told.
func (n Notice) Detail() string { return cmp.Or(noticeDetails[n], string(n)) }
