package access

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzHide: no path that is passed on has anything that looks like a token,
// however it was written, and what is passed on is a path.
func FuzzHide(f *testing.F) {
	for _, seed := range []string{"/v/abc/~token/master.m3u8", "/v/~a/~b/~c", "/v//~", "/v/abc/%7Etoken/0.m4s", "/v/abc/%2F~x", "/v/a/~b?x=/~c", "/v//~c?/~c", "/api/v1/videos/abc/~x", "//v/abc/~x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		address, err := url.ParseRequestURI(path)
		if err != nil || address.Path == "" {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL, r.RequestURI = address, path
		Hide(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			for _, segment := range strings.Split(r.URL.Path, "/") {
				if strings.HasPrefix(segment, tokenMark) && (segment != tokenMark || strings.HasPrefix(r.URL.Path, "/v/")) {
					t.Errorf("%q is passed on as %q", path, r.URL.Path)
				}
			}
			if r.URL.Path == "" || r.URL.Path[0] != '/' {
				t.Errorf("%q is passed on as %q", path, r.URL.Path)
			}
			target, _, _ := strings.Cut(r.RequestURI, "?") // what stands in the query is no token
			if token, _ := tokenOf(r); token != "" && strings.Contains(target, "/"+tokenMark+url.PathEscape(token)) {
				t.Errorf("%q: the token is in %q", path, r.RequestURI)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	})
}
