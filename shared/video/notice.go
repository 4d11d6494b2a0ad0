package video

// Notice is a stable, documented name for what of a source a video lacks that plays
// otherwise. Notices never change their meaning.
type Notice string

// What a video may lack.
const (
	AudioNotDecodable Notice = "audio_not_decodable" // it has sound, of a kind that cannot be decoded
	AudioTruncated    Notice = "audio_truncated"     // its sound could not be decoded to its end
)

// Detail is what the user is told.
func (n Notice) Detail() string {
	switch n {
	case AudioNotDecodable:
		return "Its sound is of a kind that we cannot decode, so the video is silent."
	case AudioTruncated:
		return "Its sound could not be decoded to its end, so the last part of the video is silent."
	}
	return string(n)
}
