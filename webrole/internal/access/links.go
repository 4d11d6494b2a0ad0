package access

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/golang-jwt/jwt/v5"

	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/video"
)

// Links makes and reads the tokens with which a private video plays for some hours
// without cookie and header, such as in a player that is no browser: they stand in the
// path, so that the addresses of a playlist, which are relative, keep them.
//
//	/v/<video id>/~<JWT: the video and the end of its life>/master.m3u8
//
// The zero value makes none and takes none.
type Links struct {
	Keys []jwt.VerificationKey // each is []byte; the first signs, all count
	Life time.Duration         // at least so long, and a sixth longer at most
}

// tokenMark begins the segment of the path that is a token; no step, rendition or file
// begins with it.
const tokenMark = "~"

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
	claims := jwt.RegisteredClaims{Subject: string(v.ID), ExpiresAt: jwt.NewNumericDate(end)}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(l.Keys[0])
	if err != nil {
		panic(err) // the key is no []byte
	}
	return base + "/" + tokenMark + token
}

// identify returns the holder of the token that a request shows: a viewer of one video, and of
// nothing else; false without one, or when it is spoilt, over, or of another video.
func (l Links) identify(c *gin.Context) (caller Identity, ok bool) {
	token, ok := tokenOf(c.Request)
	if !ok {
		return Identity{}, false
	}
	id := c.Param("id")
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) {
		return jwt.VerificationKeySet{Keys: l.Keys}, nil
	}, jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Name}), jwt.WithExpirationRequired(), jwt.WithSubject(id))
	if err != nil || id == "" {
		return Identity{}, false
	}
	return Identity{Role: Viewer, Plays: engine.ID(id), Until: claims.ExpiresAt.Unix()}, true
}

type tokenKey struct{}

var (
	tokens    = regexp.MustCompile("/" + tokenMark + "[^/]*")
	playToken = regexp.MustCompile("^/v/[^/]*/" + tokenMark + "([^/]*)")
)

// Hide takes tokens out of the path before it can be recorded by log, trace,
// metric and error see the address without. Identify finds the token in the context.
// Everything in a path that looks like a token goes, but only one behind the id of
// playback can count; elsewhere its mark stays, so that such an address leads nowhere.
func Hide(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, mark, ctx := r.URL.Path, "/"+tokenMark, r.Context()
		if !tokens.MatchString(path) {
			next.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(path, "/v/") {
			shows := ""
			if found := playToken.FindStringSubmatch(path); found != nil {
				shows = found[1]
			}
			mark, ctx = "", context.WithValue(ctx, tokenKey{}, shows)
		}
		clean := r.WithContext(ctx)
		clean.URL = &url.URL{Path: tokens.ReplaceAllString(path, mark), RawQuery: r.URL.RawQuery}
		clean.RequestURI = clean.URL.RequestURI()
		next.ServeHTTP(w, clean)
	})
}

func tokenOf(r *http.Request) (token string, ok bool) {
	token, ok = r.Context().Value(tokenKey{}).(string)
	return token, ok
}
