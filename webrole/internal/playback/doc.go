// Package playback serves what a player reads under /v/{id}/. While a video is
// being made its playlists are drawn from the committed step rows, so it can be
// watched before it is ready; afterwards the finish step's files are served. A
// segment is a range of one immutable blob, proxied with ranges and a strong
// ETag, and cached for ever: its address carries the generation.
//
//	master.m3u8  {rendition}.m3u8  audio.m3u8
//	{rendition|audio}/init.mp4  {rendition|audio}/{number}.m4s
//	poster.jpg  storyboard.vtt  storyboard.jpg  download.mp4
//
// Every request looks at META first, a point read, so that a deleted video
// answers 404 from its tombstone on.
//
// Last in the reading order.
package playback
