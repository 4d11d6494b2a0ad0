package ffmpeg

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// Whatever ffprobe says of a stranger's file, it is a source with pictures that have a codec, or an error.
func FuzzProbed(f *testing.F) {
	f.Add([]byte(`{"format":{"format_name":"mov,mp4","duration":"9"},"streams":[{"codec_type":"video","codec_name":"h264","width":64,"height":64,"r_frame_rate":"30/1","avg_frame_rate":"0/0","sample_aspect_ratio":"1:1"}]}`))
	f.Add([]byte(`{"streams":[{"codec_type":"video","width":-1,"side_data_list":[{"rotation":-90}]},{"codec_type":"audio"}]}`))
	f.Add([]byte(`{"format":{"duration":"N/A","start_time":"-1e308"},"streams":[{}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var p probed
		if json.Unmarshal(answer, &p) != nil {
			return
		}
		if info, err := p.info(map[string]bool{"h264": true}); err == nil && (info.Streams == 0 || info.Video.Codec == "") {
			t.Errorf("%s is %+v", answer, info)
		}
	})
}

// Progress is the same however its bytes are cut.
func FuzzProgress(f *testing.F) {
	f.Add([]byte("frame=1\nout_time_us=100\ntotal_size=N/A\nprogress=continue\nframe=9\nprogress=end\n"), uint(3))
	f.Add([]byte("frame=\r\n=1\nframe=99999999999999999999\nprogress=\n"), uint(1))
	f.Fuzz(func(t *testing.T, text []byte, size uint) {
		if len(text) > maxLine {
			return // longer lines are dropped, where depends on the cuts
		}
		read := func(size int) (got []map[string]string) {
			var w *progressWriter
			w = newProgress(func() { got = append(got, maps.Clone(w.now)) })
			for part := range slices.Chunk(text, size) {
				if n, err := w.Write(part); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			return got
		}
		whole, cut := read(max(1, len(text))), read(int(size%100)+1)
		if fmt.Sprint(whole) != fmt.Sprint(cut) {
			t.Errorf("whole %v, cut %v", whole, cut)
		}
	})
}
