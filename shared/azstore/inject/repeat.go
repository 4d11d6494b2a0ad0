package inject

import (
	"encoding/xml"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/azstore"
)

// repeat is a message that is to be sent twice.
type repeat struct {
	until  time.Time
	wanted func(queue, text string) bool
	sent   func(queue, text string)
}

// Repeat sends the next message that wanted accepts once more, as a sender does
// whose reply was lost (Q8, Q13). wanted is asked for each message that is sent
// until then, with the queue's name in the account and the message's text, and must
// not call the proxy; sent is told when it was done. A later Repeat replaces an
// earlier one.
func (p *Proxy) Repeat(until time.Time, wanted func(queue, text string) bool, sent func(queue, text string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.repeat = &repeat{until, wanted, sent}
}

// again forwards a message a second time when that was requested.
func (f *front) again(r *http.Request, body []byte, status int) {
	if f.service != azstore.Queues || r.Method != http.MethodPost || status != http.StatusCreated {
		return
	}
	path, sends := strings.CutSuffix(r.URL.Path, "/messages")
	if !sends {
		return
	}
	queue := path[strings.LastIndex(path, "/")+1:]
	text, sent := f.proxy.wantsAgain(queue, body)
	if sent == nil {
		return
	}
	next := r.Clone(r.Context())
	next.Body, _ = r.GetBody()
	if res, err := f.next.RoundTrip(next); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode == http.StatusCreated {
			sent(queue, text)
		}
	}
}

// wantsAgain returns whom to tell, or nil.
func (p *Proxy) wantsAgain(queue string, body []byte) (text string, sent func(queue, text string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.repeat == nil {
		return "", nil
	}
	if time.Now().After(p.repeat.until) {
		p.repeat = nil
		return "", nil
	}
	var message struct{ MessageText string }
	if err := xml.Unmarshal(body, &message); err != nil || !p.repeat.wanted(queue, message.MessageText) {
		return "", nil
	}
	sent = p.repeat.sent
	p.repeat = nil
	return message.MessageText, sent
}
