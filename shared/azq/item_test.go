package azq_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cutroom/cutroom/shared/azq"
)

const subject = "order-7"

type payload struct {
	Generation int `json:"generation"`
	Index      int `json:"index"`
}

func TestItemSurvivesTheTrip(t *testing.T) {
	t.Parallel()
	want, err := azq.NewItem("encode", subject, "v/g1/encode/4", payload{1, 4})
	if err != nil {
		t.Fatal(err)
	}
	want.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	want.Releases, want.Snoozes = 2, 3
	want.Fail(time.Now(), "worker-1", errors.New("disk\nfull <é>"))

	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := azq.DecodeItem(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(azq.Item{})); diff != "" {
		t.Errorf("item changed on its way (-sent +received):\n%s", diff)
	}
	if data, err := azq.DecodeData[payload](got); err != nil || data != (payload{1, 4}) {
		t.Errorf("DecodeData = %+v, %v", data, err)
	}
	if got.LastError != "disk full <é>" || !strings.Contains(got.History, "worker-1 disk full") {
		t.Errorf("LastError = %q, History = %q", got.LastError, got.History)
	}
}

// Data of another shape will not change its shape: no attempt helps.
func TestDataOfAnotherShapeIsMalformed(t *testing.T) {
	t.Parallel()
	item, err := azq.NewItem("encode", subject, "x", "text")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := azq.DecodeData[payload](item); !errors.Is(err, azq.ErrMalformed) {
		t.Errorf("DecodeData = %+v, %v", data, err)
	}
	item.Data = nil
	if data, err := azq.DecodeData[payload](item); !errors.Is(err, azq.ErrMalformed) {
		t.Errorf("no data: %+v, %v", data, err)
	}
}

// Q6: what another implementation added is returned as it was, to the byte,
// whatever we change around it.
func TestUnknownMembersSurviveByteForByte(t *testing.T) {
	t.Parallel()
	unknown := []string{
		`"zeta": {"b" :1.0,  "a":[ 1e3, "<&>\u00e9" ]}`,
		`"alpha":"\u002f"`,
		`"data":{"index":4, "generation":1,"codec":"av2",  "n":1.50}`,
	}
	in := `{"specversion":"1.0","type":"cutroom.work.encode.v1","id":"x","subject":"` + subject + `",` + strings.Join(unknown, ",") + `}`
	item, err := azq.DecodeItem(base64.StdEncoding.EncodeToString([]byte(in)))
	if err != nil {
		t.Fatal(err)
	}
	item.Fail(time.Now(), "w", errors.New("again"))
	item.Releases++
	out, err := item.JSON()
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, m := range unknown {
		value := strings.TrimSpace(m[strings.Index(m, ":")+1:])
		i := strings.Index(string(out)[at:], value)
		if i < 0 {
			t.Fatalf("%s was changed or moved in\n%s", value, out)
		}
		at += i
	}
	if !json.Valid(out) {
		t.Errorf("not JSON: %s", out)
	}
}

func TestNewerVersionIsKept(t *testing.T) {
	t.Parallel()
	newer := `"cutroom.work.encode.v77"`
	in := `{"specversion":"1.0","id":"x","type":` + newer + `,"subject":"not-an-id-in-v1","data":{"shape":"new"},"extra":[1,  2]}`
	item, err := azq.DecodeItem(in)
	if err != nil || item.Version != 77 {
		t.Fatalf("version %d, %v; want 77", item.Version, err)
	}
	item.Snoozes++
	out, err := item.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{newer, `{"shape":"new"}`, `[1,  2]`, `"not-an-id-in-v1"`, `"snoozes":1`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing in %s", want, out)
		}
	}
	if _, err := azq.DecodeItem(`{"specversion":"2.0","everything":"else"}`); !errors.Is(err, azq.ErrNewerVersion) {
		t.Errorf("CloudEvents 2.0: err = %v, want ErrNewerVersion", err)
	}
}

// A version is written when it is asked for, and otherwise the one that all know.
func TestVersionIsAskedFor(t *testing.T) {
	t.Parallel()
	item, err := azq.NewItem("audio", subject, "x", payload{Generation: 1})
	if err != nil || item.Version != 1 {
		t.Fatalf("New made version %d: %v", item.Version, err)
	}
	item.Version = 2
	text, err := item.JSON()
	if err != nil || !strings.Contains(string(text), `"azq.work.audio.v2"`) {
		t.Fatalf("%s: %v", text, err)
	}
	if again, err := azq.DecodeItem(string(text)); err != nil || again.Version != 2 {
		t.Errorf("Decode = %+v, %v", again, err)
	}
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":             "",
		"not base64":        "%%%",
		"base64 of no JSON": base64.StdEncoding.EncodeToString([]byte("hello")),
		"array":             base64.StdEncoding.EncodeToString([]byte(`[1]`)),
		"no version":        `{"id":"x","type":"cutroom.work.encode.v1","subject":"` + subject + `"}`,
		"no id":             `{"specversion":"1.0","type":"cutroom.work.encode.v1","subject":"` + subject + `"}`,
		"other type":        `{"specversion":"1.0","id":"x","type":"com.example.order","subject":"` + subject + `"}`,
		"subject no text":   `{"specversion":"1.0","id":"x","type":"cutroom.work.encode.v1","subject":7}`,
		"twice":             `{"specversion":"1.0","id":"x","id":"y","type":"cutroom.work.encode.v1","subject":"` + subject + `"}`,
		"counter":           `{"specversion":"1.0","id":"x","type":"cutroom.work.encode.v1","failures":-1,"subject":"` + subject + `"}`,
		"cut off":           `{"specversion":"1.0","id":"x"`,
		"trailing":          `{"specversion":"1.0","id":"x","type":"cutroom.work.encode.v1","subject":"` + subject + `"} {}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if item, err := azq.DecodeItem(text); !errors.Is(err, azq.ErrMalformed) {
				t.Errorf("Decode = %+v, %v; want ErrMalformed", item, err)
			}
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	item, err := azq.NewItem("encode", subject, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		item.Fail(time.Now(), "worker", errors.New(strings.Repeat("é", 5000)))
	}
	text, err := item.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if item.Failures != 50 || len(text) > 4096 {
		t.Errorf("%d failures take %d bytes, want 50 in at most 4096", item.Failures, len(text))
	}
	if got := item.Unexplained(60); got != 9 {
		t.Errorf("Unexplained(60) = %d, want 9", got)
	}
}

func TestClaimCheckTravelsWithoutData(t *testing.T) {
	t.Parallel()
	item, err := azq.NewItem("encode", subject, "x", strings.Repeat("a", 60_000))
	if err != nil {
		t.Fatal(err)
	}
	item.DataRef = subject + "/x"
	text, err := item.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := azq.DecodeItem(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1000 || got.Data != nil || got.DataRef != item.DataRef {
		t.Errorf("%d bytes, data %d bytes, ref %q", len(text), len(got.Data), got.DataRef)
	}
}

// FuzzDecode: no text crashes the decoder, and what it accepts it can write
// again to the same item.
func FuzzDecode(f *testing.F) {
	item, _ := azq.NewItem("encode", subject, "x", payload{Generation: 1})
	seed, _ := item.Encode()
	f.Add(seed)
	f.Add(`{"specversion":"1.0","id":"x","type":"cutroom.work.encode.v9","a\u0000b":[{}],"data":null}`)
	f.Add(`{"specversion":"1.1","id":"\ud800","type":"cutroom.work.a.v1","subject":"` + subject + `","":0}`)
	f.Fuzz(func(t *testing.T, text string) {
		first, err := azq.DecodeItem(text)
		if err != nil {
			return
		}
		again, err := first.Encode()
		if errors.Is(err, azq.ErrTooLarge) {
			return // it was in no queue
		}
		if err != nil {
			t.Fatalf("decoded but cannot encode: %v", err)
		}
		second, err := azq.DecodeItem(again)
		if err != nil {
			t.Fatalf("cannot read what we wrote: %v\n%s", err, again)
		}
		if diff := cmp.Diff(first, second, cmpopts.IgnoreUnexported(azq.Item{})); diff != "" {
			t.Errorf("not stable (-first +second):\n%s", diff)
		}
	})
}
