package video

import (
	"cmp"
	"fmt"
)

// Code is a stable, documented name for a reason why a video failed or a
// request was refused. Codes never change their meaning.
type Code string

// Codes of videos that cannot be processed. Every one is permanent: the same
// bytes fail the same way, so one attempt is enough.
const (
	UnsupportedMedia Code = "unsupported_media" // not a container that we accept
	CorruptMedia     Code = "corrupt_media"     // the container is known, the content cannot be decoded
	NoVideoStream    Code = "no_video_stream"
	TooManyPixels    Code = "too_many_pixels"
	TooSmall         Code = "too_small"
	TooLong          Code = "too_long"
	TooManyFrames    Code = "too_many_frames"
	TooManyStreams   Code = "too_many_streams"
	TooMuchMetadata  Code = "too_much_metadata" // tags, attached files and indexes that are too large to be read
	EncryptedMedia   Code = "encrypted_media"
	InvalidCaptions  Code = "invalid_captions" // not WebVTT or SRT with cues
	UndecodableText  Code = "undecodable_text" // captions or a list in an encoding that cannot be told, or damaged
	SourceChanged    Code = "source_changed"   // the blob is not the one that was verified
	// ProcessingFailed is ours, not the uploader's: the attempts are used up.
	ProcessingFailed Code = "processing_failed"
)

// Failure is what the user is told. Detail is written for people and holds no
// secrets, paths or stack traces.
type Failure struct {
	Code   Code   `json:"code"`
	Detail string `json:"detail"`
}

// Error makes a Failure usable as the permanent error of a step.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Code, f.Detail) }

// Fail returns a permanent failure with a formatted detail.
func Fail(code Code, format string, args ...any) error {
	return &Failure{Code: code, Detail: fmt.Sprintf(format, args...)}
}

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
