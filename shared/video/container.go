package video

import (
	"regexp"
	"strings"
)

// Container is a kind of file in which a video may come.
type Container struct {
	Name     string   // for people
	Demuxer  string   // ffmpeg's name of what reads it
	Types    []string // media types besides video/*
	Suffixes []string // of names of files that browsers may not know as videos
}

// Containers are all that are read: what the web role says and what the workers let
// ffmpeg open. No demuxer among them reads another file or address that its content
// names: hls, concat, dash, sdp and image2 do, and must never be added.
//
// Video without a container (raw H.264, HEVC, MPEG) is left out. It does not say when its
// pictures are shown: ffmpeg shows 25 of H.264 in a second whatever was filmed, and cannot
// copy pictures that are not in their order of display into a file with times.
var Containers = []Container{
	{"MP4, MOV", "mov", []string{"application/mp4"}, nil},
	{"Matroska, WebM", "matroska", []string{"application/x-matroska"}, []string{".mkv"}},
	{"MPEG-TS", "mpegts", nil, []string{".ts", ".mts", ".m2ts"}},
	{"MPEG-PS", "mpeg", nil, []string{".mpg", ".mpeg", ".vob"}},
	{"AVI", "avi", nil, []string{".avi"}},
	{"FLV", "flv", nil, []string{".flv"}},
	{"Ogg", "ogg", []string{"application/ogg"}, []string{".ogv"}},
	{"WMV", "asf", []string{"application/vnd.ms-asf"}, []string{".wmv", ".asf"}},
}

// ContainerNames lists Containers for people.
func ContainerNames() string {
	var names []string
	for _, c := range Containers {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// HeadBytes are as many of a file's first bytes as OtherKind is given.
const HeadBytes = 4096

// Kind is a kind of file that is in none of Containers, known by its first bytes.
type Kind struct {
	Name    string `json:"name"`
	Pattern string `json:"pattern"` // of the first bytes, a character for each
}

// OtherKinds are refused before they are stored. What is not among them may be a video:
// recordings of MPEG-TS and MPEG-PS begin with anything, so only ffmpeg can tell. A pattern
// has three bytes at least that must be so, and is one for Go and for the pages' script.
var OtherKinds = []Kind{
	{"too short", `^[\x00-\xff]{0,15}$`},
	{"a playlist", `^(#EXTM3U|ffconcat )`},
	{"a picture", `^(\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|RIFF[\x00-\xff]{4}WEBP|BM[\x00-\xff]{4}\x00{4}|II\*\x00|MM\x00\*|[\x00-\xff]{4}ftyp(heic|heix|mif1|avif))`},
	{"sound alone", `^(fLaC|(RIFF|RF64)[\x00-\xff]{4}WAVE|FORM[\x00-\xff]{4}AIF[FC]|MThd|#!AMR)`},
	{"an archive", `^(PK(\x03\x04|\x05\x06)|\x1f\x8b\x08|7z\xbc\xaf|Rar!\x1a\x07|\xfd7zXZ|BZh[1-9]1AY|\x28\xb5\x2f\xfd|[\x00-\xff]{257}ustar)`},
	{"a document", `^(%PDF-|\xd0\xcf\x11\xe0)`},
	{"a program", `^(\x7fELF|MZ[\x00-\xff]{38,200}This program |\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe)`},
	{"text", `^[\t-\r\x7f-\xff]*[ -~][\t-\r -\xff]*$`}, // no byte that is a control character
}

// OtherKind says what a file certainly is, if that is no video that is read. head are its
// first HeadBytes, or all of it.
func OtherKind(head []byte) (name string, is bool) {
	runes := make([]rune, len(head))
	for i, b := range head {
		runes[i] = rune(b)
	}
	for _, kind := range OtherKinds {
		if regexp.MustCompile(kind.Pattern).MatchString(string(runes)) {
			return kind.Name, true
		}
	}
	return "", false
}
