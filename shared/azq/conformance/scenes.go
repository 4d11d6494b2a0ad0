package conformance

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/cutroom/cutroom/shared/azq"
)

// scene is a story on a queue of its own, which is named after it.
type scene struct {
	name  string
	rules string // that it judges
	run   func(*stage)
}

// scenes are those that judge a rule that is asked for, the longest first.
func (w Worker) scenes() []scene {
	all := []scene{
		{"lease", "lease done", leaseScene},
		{"moves", "moves", movesScene},
		{"replies", "replies", repliesScene},
		{"stale", "stale", staleScene},
		{"killed", "killed", killedScene},
		{"paused", "paused", pausedScene},
		{"drain", "drain keeps", drainScene},
		{"failures", "failures poison keeps", failuresScene},
		{"back", "back keeps", backScene},
		{"crashes", "crashes", crashesScene},
		{"claim-checks", "claims", claimsScene},
		{"texts", "reads twice", textsScene},
		{"malformed", "malformed", malformedScene},
	}
	return slices.DeleteFunc(all, func(s scene) bool { return !slices.ContainsFunc(strings.Fields(s.rules), w.asked) })
}

// unknown are members that no worker knows. A program that reads them into values and writes
// those changes at least one of them.
const unknown = `"region":{"b":1.50,"a":"\u00e9<&>","c":[true,null]},"serial":12345678901234567890`

// greeting is an item whose data is given. Unknown members stand before and after the others.
func greeting(id, data string) string { return object(id, "azq.work.greet.v1", `"data":`+data) }

func object(id, kind, more string) string {
	first, last, _ := strings.Cut(unknown, `,"serial"`)
	return fmt.Sprintf(`{%s,"specversion":"1.0","id":%q,"type":%q,"subject":%q,%s,"serial"%s}`,
		first, id, kind, id, more, last)
}

func slow(id string, seconds int) string {
	return greeting(id, fmt.Sprintf(`{"name":"Ada","seconds":%d}`, seconds))
}

// unnamed is data with which every attempt fails.
const unnamed = `{"name":"","note":1.50}`

// textsScene sends greetings in every form of text. Some succeed, others have no name: their
// rows say that they were read and not only deleted.
func textsScene(s *stage) {
	s.limit = 1
	forms := map[string]func(string) string{
		"JSON in several lines":  func(text string) string { return strings.Replace(text, ",", ",\r\n", 1) },
		"plain JSON":             func(text string) string { return text },
		"a mark before JSON":     func(text string) string { return "\uFEFF" + text },
		"base64":                 encode,
		"a mark in base64":       func(text string) string { return encode("\uFEFF" + text) },
		"base64 of addresses":    func(text string) string { return base64.URLEncoding.EncodeToString([]byte(text)) },
		"base64 without padding": func(text string) string { return base64.RawStdEncoding.EncodeToString([]byte(text)) },
		"base64 in several lines": func(text string) string {
			text = encode(text)
			return text[:40] + "\r\n" + text[40:]
		},
	}
	sent := map[string]string{} // by message id
	for _, form := range slices.Sorted(maps.Keys(forms)) {
		sent[s.send(forms[form](greeting(form, `{"name":"ÿþ?>"}`)))] = ""
		sent[s.send(forms[form](greeting(form, `{"name":"","sign":"ÿþ?>"}`)))] = form
	}
	for range 2 {
		sent[s.send(encode(greeting("twice", `{"name":"Ada"}`)))] = ""
	}
	s.start()
	if !s.until(func() bool { return s.length() == 0 }) {
		s.breaks("reads", "%d of %d messages are left", s.length(), len(sent))
	}
	for id, r := range s.rows() {
		switch {
		case r.itemID == "twice":
			s.breaks("twice", "it is poison: %s", r.reason)
		case sent[id] == "":
			s.breaks("reads", "a greeting is poison: %s", r.reason)
		case r.itemID != sent[id]:
			s.breaks("reads", "%s: the poison row has the id %q: %s", sent[id], r.itemID, r.reason)
		}
		delete(sent, id)
	}
	for _, form := range sent {
		if form != "" {
			s.breaks("reads", "%s: a greeting without a name is gone, and is no poison item", form)
		}
	}
}

// failuresScene follows an item that fails until it is poison.
func failuresScene(s *stage) {
	id := s.send(encode(greeting("nameless", unnamed)))
	sent := time.Now()
	s.start()
	var found row
	done := s.until(func() bool {
		gone := s.length() == 0
		found = s.rows()[id]
		if gone && found.id == "" {
			s.breaks("poison", "the message is gone and there is no row of it")
		}
		return gone
	})
	took := time.Since(sent)
	copies := s.peek(s.poison)
	switch {
	case !done:
		s.breaks("failures", "the item is still in the queue after %v", took.Round(time.Second))
		s.breaks("poison", "the item was never put aside")
		return
	case len(copies) != 1 || len(found.text) > 0 && *copies[0].MessageText != string(found.text):
		s.breaks("poison", "%d messages in the poison queue, want one, with the text of the row", len(copies))
	case time.Until(*copies[0].ExpirationTime) < 365*24*time.Hour:
		s.breaks("poison", "the copy expires")
	}
	if found.reason == "" {
		s.breaks("poison", "the row says no reason")
	}
	item, err := azq.DecodeItem(string(found.text))
	if err != nil || item.ID != "nameless" || found.itemID != "nameless" {
		s.breaks("poison", "the row holds item %q with the text %q: %v", found.itemID, found.text, err)
		return
	}
	if item.Failures != maxFailures || found.dequeueCount < maxFailures || item.LastError == "" {
		s.breaks("failures", "%d failures after %d deliveries, want %d; the last is %q",
			item.Failures, found.dequeueCount, maxFailures, item.LastError)
	}
	if min := (maxFailures - 1) * pause * 7 / 10; took < min {
		s.breaks("failures", "all attempts took %v, want pauses of about %v", took, pause)
	}
	s.same("keeps", item, unnamed)
}

// same checks that an item has the members with which it was sent.
func (s *stage) same(rule string, item azq.Item, data string) {
	raw, err := item.JSON()
	first, last, _ := strings.Cut(unknown, `,"serial"`)
	for _, part := range []string{first, `"serial"` + last} {
		if err != nil || !strings.Contains(string(raw), part) {
			s.breaks(rule, "item %q had %s and is now %s", item.ID, part, raw)
		}
	}
	if string(item.Data) != data {
		s.breaks(rule, "item %q had the data %s and now has %s", item.ID, data, item.Data)
	}
}

// malformedScene sends what no attempt can change.
func malformedScene(s *stage) {
	good := greeting("item", `{"name":"Ada"}`)
	with := func(old, changed string) string { return encode(strings.Replace(good, old, changed, 1)) }
	texts := map[string]string{
		"no JSON and no base64":        "neither JSON nor base64!",
		"JSON that is cut off":         encode(good[:len(good)-9]),
		"a specversion in words":       with(`"1.0"`, `"one"`),
		"a type of another form":       with("azq.work.greet.v1", "greet"),
		"a member that is there twice": with(`"data"`, `"id":"other","data"`),
		"a counter that is text":       with(`"data"`, `"failures":"3","data"`),
		"no id":                        with(`"id":"item",`, ``),
	}
	ids := map[string]string{}
	for what, text := range texts {
		ids[what] = s.send(text)
	}
	s.start()
	if !s.until(func() bool { return s.length() == 0 }) {
		s.breaks("malformed", "%d of %d messages are left", s.length(), len(texts))
	}
	rows := s.rows()
	for what, id := range ids {
		switch r := rows[id]; {
		case r.id == "":
			s.breaks("malformed", "%s: there is no row of it", what)
		case string(r.text) != texts[what] || r.dequeueCount != 1 || r.reason == "":
			s.breaks("malformed", "%s: poison after %d deliveries because %q, with the text %.60q",
				what, r.dequeueCount, r.reason, r.text)
		}
	}
}

// strangers are the texts of items that are for another worker, by a name that is their id.
func strangers(claims bool) map[string]string {
	const newest = "a newer CloudEvents"
	texts := map[string]string{
		"another kind":    object("another kind", "azq.work.paint.v1", `"data":`+unnamed),
		"a newer version": object("a newer version", "azq.work.greet.v2", `"data":`+unnamed),
		newest: strings.Replace(object(newest, "azq.work.greet.v1", `"failures":"many","data":`+unnamed),
			`"1.0"`, `"2.0"`, 1),
	}
	if !claims {
		texts["a claim check"] = object("a claim check", "azq.work.greet.v1", `"dataref":"a claim check/1"`)
	}
	return texts
}

// backScene sends what is for another worker, and looks at it when ours was there.
func backScene(s *stage) {
	texts, names := strangers(s.worker.Claims), map[string]string{}
	for name, text := range texts {
		names[s.send(encode(text))] = name
	}
	s.start()
	back := map[string]bool{}
	seen := s.until(func() bool {
		for _, m := range s.peek(s.queue) {
			if *m.DequeueCount > 0 {
				back[*m.MessageID] = true
			}
		}
		return len(back) == len(texts) || s.length() < len(texts)
	})
	if !s.stop() || !seen {
		s.breaks("back", "%d of %d came back", len(back), len(texts))
	}
	all := s.takeAll()
	for id, name := range names {
		if all[id] == nil {
			s.breaks("back", "%s is gone", name)
			continue
		}
		s.isBack(name, texts[name], all[id])
	}
	s.untouched("back")
}

// isBack checks what a worker has written into a message that is for another.
func (s *stage) isBack(name, sent string, m *azqueue.DequeuedMessage) {
	item, err := azq.DecodeItem(*m.MessageText)
	want := unnamed
	switch {
	case errors.Is(err, azq.ErrNewerVersion):
		if *m.MessageText != encode(sent) {
			s.breaks("keeps", "%s had the text %s and now has %s", name, encode(sent), *m.MessageText)
		}
		return
	case err != nil:
		s.breaks("keeps", "%s cannot be read any more: %q: %v", name, *m.MessageText, err)
		return
	case item.Failures > 0 || item.Snoozes == 0 || item.Unexplained(*m.DequeueCount) > 0:
		s.breaks("back", "%s: %d failures and %d snoozes after %d deliveries",
			name, item.Failures, item.Snoozes, *m.DequeueCount-1)
	}
	if item.DataRef != "" {
		want = ""
	}
	s.same("keeps", item, want)
}

// crashesScene has an item that was delivered often, and whose attempts began and never ended.
func crashesScene(s *stage) {
	id := s.send(encode(object("crash", "azq.work.greet.v1", `"starts":10,"data":{"name":"Ada"}`)))
	for range 22 {
		m := s.take()
		if m == nil {
			return
		}
		visible := &azqueue.UpdateMessageOptions{VisibilityTimeout: new(int32(0))}
		_, err := s.queue.UpdateMessage(s.ctx, *m.MessageID, *m.PopReceipt, *m.MessageText, visible)
		s.failed(err)
	}
	s.start()
	if !s.until(func() bool { return s.length() == 0 }) || s.rows()[id].id == "" {
		s.breaks("crashes", "after 22 deliveries without a word it is no poison item")
	}
}

// claimsScene sends data in a blob: of the item, of another subject, and of none.
func claimsScene(s *stage) {
	work := 3 * time.Second
	blobs := s.account.Container(azq.ClaimsContainer)
	data := []byte(`{"name":"Ada","seconds":` + strconv.Itoa(int(work.Seconds())) + `}`)
	for _, name := range []string{"large/1", "secret/1"} {
		_, err := blobs.NewBlockBlobClient(name).UploadBuffer(s.ctx, data, nil)
		s.failed(err)
	}
	s.send(encode(object("large", "azq.work.greet.v1", `"dataref":"large/1"`)))
	s.start()
	if !s.working() {
		s.breaks("claims", "the worker has not received the message")
		return
	}
	began := time.Now()
	if !s.until(func() bool { return s.length() == 0 }) || time.Since(began) < work*8/10 {
		s.breaks("claims", "%d messages are left after %v, and the work that the blob asks for takes %v",
			s.length(), time.Since(began), work)
	}
	s.untouched("claims")
	for id, dataref := range map[string]string{"thief": "secret/1", "gone": "gone/1"} {
		message := s.send(encode(object(id, "azq.work.greet.v1", fmt.Sprintf(`"dataref":%q`, dataref))))
		if !s.until(func() bool { return s.length() == 0 }) || s.rows()[message].id == "" {
			s.breaks("claims", "%s: a claim check of %s is no poison item", id, dataref)
		}
	}
}
