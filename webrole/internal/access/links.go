package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cutroom/cutroom/shared/video"
)

// Links makes and reads the tokens with which a private video plays for some hours
// without cookie and header, such as in a player that is no browser: they stand in the
// path, so that the addresses of a playlist, which are relative, keep them.
//
//	/v/<video id>/~<end of its life, Unix seconds, hexadecimal>.<HMAC>/master.m3u8
//
// The zero value makes none and takes none.
type Links struct {
	Keys [][]byte      // the first signs, all count
	Life time.Duration // at least so long, and a sixth longer at most
}

// tokenMark begins the segment of the path that is a token; no step, rendition or file
// begins with it.
const tokenMark = "~"

// macBytes is how much of the HMAC is in a token: 128 bits.
const macBytes = 16

// Base is where a video's playback is: with a token, if there are keys and it is
// private. Tokens of one video are the same for a sixth of their life, so that caches
// know the addresses again.
func (l Links) Base(v video.Video) string {
	base := "/v/" + string(v.ID)
	if len(l.Keys) == 0 || v.Visibility.Linked() {
		return base
	}
	step := max(time.Second, l.Life/6)
	end := time.Now().Truncate(step).Add(step + l.Life)
	return base + "/" + tokenMark + l.token(l.Keys[0], v.ID, end.Unix())
}

func (l Links) token(key []byte, id video.ID, end int64) string {
	text := strconv.FormatInt(end, 16)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("play\x00" + string(id) + "\x00" + text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:macBytes])
}

// check returns when a token ends, or false when it is spoilt, over, or of another
// video.
func (l Links) check(id video.ID, token string) (end time.Time, ok bool) {
	text, _, _ := strings.Cut(token, ".")
	unix, err := strconv.ParseInt(text, 16, 64)
	if err != nil {
		return end, false
	}
	for _, key := range l.Keys {
		if subtle.ConstantTimeCompare([]byte(l.token(key, id, unix)), []byte(token)) == 1 {
			ok = true
		}
	}
	end = time.Unix(unix, 0)
	return end, ok && time.Now().Before(end)
}

type tokenKey struct{}

// Hide takes tokens out of the path before it can be recorded by log, trace,
// metric and error see the address without. Identify finds the token in the context.
// Everything in a path that looks like a token goes, but only one behind the id of
// playback can count; elsewhere its mark stays, so that such an address leads nowhere.
func Hide(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/"+tokenMark) {
			next.ServeHTTP(w, r)
			return
		}
		plays, shows := strings.HasPrefix(r.URL.Path, "/v/"), ""
		var kept []string
		for i, s := range strings.Split(r.URL.Path, "/") { // "", "v", id, token, …
			switch token, is := strings.CutPrefix(s, tokenMark); {
			case !is:
				kept = append(kept, s)
			case !plays:
				kept = append(kept, tokenMark)
			case i == 3:
				shows = token
			}
		}
		ctx := r.Context()
		if plays {
			ctx = context.WithValue(ctx, tokenKey{}, shows)
		}
		clean := r.WithContext(ctx)
		clean.URL = &url.URL{Path: strings.Join(kept, "/"), RawQuery: r.URL.RawQuery}
		clean.RequestURI = clean.URL.RequestURI()
		next.ServeHTTP(w, clean)
	})
}

// tokenOf is the token that a request shows, or false.
func tokenOf(r *http.Request) (token string, ok bool) {
	token, ok = r.Context().Value(tokenKey{}).(string)
	return token, ok
}

// identify returns the holder of a token: a viewer of one video, and of nothing else.
func (l Links) identify(r *http.Request) (who Identity, ok bool) {
	token, ok := tokenOf(r)
	if !ok {
		return Identity{}, false
	}
	rest := strings.TrimPrefix(r.URL.Path, "/v/")
	text, _, _ := strings.Cut(rest, "/")
	id, err := video.ParseID(text)
	if err != nil {
		return Identity{}, false
	}
	end, ok := l.check(id, token)
	if !ok {
		return Identity{}, false
	}
	return Identity{Role: Viewer, Plays: id, Until: end.Unix()}, true
}
