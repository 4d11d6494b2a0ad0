package mutations

// media are mistakes in what is asked of ffmpeg, and in what it made.
var media = []Mutation{
	unguarded("Remux", "mux.go", `in := t.guard(src)`, `in := ff.KwArgs{}`, "Remux of /tmp/x"),
	unguarded("Sound", "audio.go", `in := t.guard(src)`, `in := ff.KwArgs{}`, "Sound of /tmp/x"),
	unguarded("Frame", "frame.go", `in := t.guard(src)`, `in := ff.KwArgs{}`, "Frame of /tmp/x"),
	unguarded("Probe", "probe.go", `ff.ConvertKwargsToCmdLineArgs(t.guard(src))`, `ff.ConvertKwargsToCmdLineArgs(ff.KwArgs{})`, "Probe of /tmp/x"),
	unguarded("Chunk", "chunk.go", `in := t.guard(job.Source)`, `in := ff.KwArgs{}`, "Chunk of /tmp/x"),
	unguarded("Mux", "mux.go", `ff.Input(Source{URL: videoFile}.input(), trusted())`, `ff.Input(Source{URL: videoFile}.input(), ff.KwArgs{})`, "Mux"),
	{
		Name: "that a program without a processor has not stalled",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/starved.go",
			Old:  `} else if known && wants && used-base < most {`,
			New:  `} else if false && known && wants && used-base < most {`,
		}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestStarvedProgramsHaveNotStalled",
		Says: "it counts as stalled",
	},
	{
		Name:    "the whitelist of protocols of an encode",
		Edits:   []Edit{encodeWithout("protocol_whitelist")},
		Package: "./workerrole/internal/ffmpeg", Test: "TestEveryInputIsGuarded",
		Says: "Chunk of /tmp/x: -protocol_whitelist is not file",
	},
	{
		Name:    "the whitelist of formats of an encode",
		Edits:   []Edit{encodeWithout("format_whitelist")},
		Package: "./workerrole/internal/media", Test: "TestPlaylistsReachNothing",
		Says: "the address inside the playlist was asked for",
	},
	{
		Name:    "both whitelists of an encode",
		Edits:   []Edit{encodeWithout("protocol_whitelist", "format_whitelist")},
		Package: "./workerrole/internal/media", Test: "TestPlaylistsReachNothing",
		Says: "a chunk was encoded",
	},
	{
		Name: "that streams may begin like something else",
		Edits: []Edit{{
			File: "shared/video/container.go",
			Old:  `^(fLaC|`,
			New:  `^(fLaC|ID3|`,
		}},
		Package: "./workerrole/internal/media", Test: "TestRefusingAndReadingAgree",
		Says: "after a tag is refused as sound alone",
	},
	{
		Name: "WMV among the containers",
		Edits: []Edit{{
			File: "shared/video/container.go",
			Old:  `	{"WMV", "asf", []string{"application/vnd.ms-asf"}, []string{".wmv", ".asf"}},` + "\n",
			New:  ``,
		}},
		Package: "./workerrole/internal/media", Test: "TestRefusingAndReadingAgree",
		Says: "asf after a tag cannot be read",
	},
	{
		Name: "the list of entries that ffprobe is asked for",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/probe.go",
			Old:  `"-show_entries", entries, "-of", "json"`,
			New:  `"-show_error", "-show_format", "-show_streams", "-of", "json"`,
		}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestTagsStayOutOfMemory",
		Says: "unsupported_media",
	},
	{
		Name: "the bound of an answer",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/run.go",
			Old:  `&capped{Writer: buffer, left: maxStdout, over: tooMuch}`,
			New:  `&capped{Writer: buffer, left: 1 << 40, over: tooMuch}`,
		}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestTagsStayOutOfMemory",
		Says: "bytes were kept",
	},
	{
		Name: "the limit of memory",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/run.go",
			Old:  `Memory: c.limits.memory, `,
			New:  ``,
		}, {
			File: "workerrole/internal/ffmpeg/limits_linux.go",
			Old:  `set(unix.RLIMIT_AS, memory, memory)`,
			New:  `_ = memory`,
		}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestEvidenceAndTrouble/too_much_memory",
		Says: "want evidence",
	},
	{
		Name:    "the bound of what a first look reads",
		Edits:   []Edit{{"workerrole/internal/ffmpeg/probe.go", "src.served.bound(maxMetadata, ", "src.served.bound(maxMetadata<<20, "}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestTagsStayOutOfMemory",
		Says: "want too_much_metadata of the first",
	},
	{
		Name: "that too long by the clock is trouble",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/run.go",
			Old:  `func (e *timeLimitError) Trouble() string`,
			New:  `func (e *timeLimitError) trouble() string`,
		}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestEvidenceAndTrouble/longer_than_the_clock",
		Says: "is nothing, want killed",
	},
	{
		Name: "the two channels in which loudness is measured",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/loudness.go",
			Old:  "\n\t\tFilter(\"aformat\", nil, ff.KwArgs{\"channel_layouts\": \"stereo\"}).",
			New:  "",
		}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestLoudnessIsThatOfBS1770",
		Says: "want -23.0 LUFS with a peak of -23",
	},
	{
		Name: "the copy of what has no one time line",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/probe.go",
			Old:  `indexed := demuxer == "mov" ||`,
			New:  `indexed := demuxer == "mpegts" || demuxer == "mov" ||`,
		}},
		Package: "./e2e/differential", Test: "TestFilmsAreAsOnePassShowsThem",
		Says: "want",
	},
	{
		Name: "the last picture while sound goes on",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/chunk.go",
			Old:  `if plan.Pictures > 0 && job.End > plan.Pictures {`,
			New:  `if false && plan.Pictures > 0 && job.End > plan.Pictures {`,
		}},
		Package: "./workerrole/internal/media", Test: "TestChunksJoinSeamlessly/late-audio",
		Says: "index out of range",
	},
	{
		Name: "the place of sound after a gap",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/place.go",
			Old:  `if late := at - end; i == 0 || late > jitter ||`,
			New:  `if late := at - end; i == 0 ||`,
		}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestPlace",
		Says: "ends at",
	},
	// No guard makes the sound right: the next two damage it, with a filter more.
	{
		Name: "the time of one side of the sound, from the second portion on",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/audio.go",
			Old:  "out := sound.Output(\"[f=f32le]\"",
			New:  "if job.From > 0 {\n\t\tsound = sound.Filter(\"adelay\", ff.Args{\"0|1S\"})\n\t}\n\tout := sound.Output(\"[f=f32le]\"",
		}},
		Package: "./workerrole/internal/media", Test: "TestSoundJoinsSeamlessly/mp4_48k_stereo",
		Says: "shifted by 1 samples",
	},
	{
		Name: "the right place of both sides of the sound",
		Edits: []Edit{{
			File: "workerrole/internal/ffmpeg/audio.go",
			Old:  "out := sound.Output(\"[f=f32le]\"",
			New:  "out := sound.Filter(\"channelmap\", ff.Args{\"1|0\"}).Output(\"[f=f32le]\"",
		}},
		Package: "./workerrole/internal/media", Test: "TestSoundJoinsSeamlessly/mp4_48k_stereo",
		Says: "where no seam is, the sound itself has",
	},
	{
		Name: "all but 16 packets of the run-up to a portion",
		Edits: []Edit{{
			File: "workerrole/internal/media/audio.go",
			Old:  `preroll = 128`,
			New:  `preroll = 16`,
		}},
		Package: "./workerrole/internal/media", Test: "TestSoundJoinsSeamlessly/mp4_48k_stereo",
		Says: ", elsewhere ",
	},
	{
		// A chunk is counted twice: by the number of its first frame, and by how many
		// follow. Either finds frames that are missing in front.
		Name: "the count of frames",
		Edits: []Edit{{
			File: "workerrole/internal/media/chunk.go",
			Old:  `want := chunk.To - chunk.From; e.Output.Frames != want && !last {`,
			New:  `want := chunk.To - chunk.From; false && e.Output.Frames != want && !last {`,
		}, {
			File: "workerrole/internal/media/chunk.go",
			Old:  `s.start*plan.FPS.Num != at {`,
			New:  `false && s.start*plan.FPS.Num != at {`,
		}},
		Package: "./workerrole/internal/media", Test: "TestPromiseIsChecked",
		Says: "promise × 2: got <nil>, want corrupt_media",
		Soak: []string{"was uploaded and is failed corrupt_media", "frames, want", "the picture at place"},
	},
}

// unguarded is a command of package ffmpeg that opens its input with what it likes.
func unguarded(command, file, before, after, says string) Mutation {
	return Mutation{
		Name:    "the guards of " + command,
		Edits:   []Edit{{File: "workerrole/internal/ffmpeg/" + file, Old: before, New: after}},
		Package: "./workerrole/internal/ffmpeg", Test: "TestEveryInputIsGuarded",
		Says: says + ": -protocol_whitelist is not file",
	}
}

// encodeWithout takes options away from the guards of an encode.
func encodeWithout(options ...string) Edit {
	e := Edit{File: "workerrole/internal/ffmpeg/chunk.go", Old: "in := t.guard(job.Source)\n"}
	e.New = e.Old
	for _, option := range options {
		e.New += "\tdelete(in, \"" + option + "\")\n"
	}
	return e
}
