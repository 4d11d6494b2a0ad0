package azstorage

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
)

// asciiRows sends rows with the escapes of JSON for all that is beyond ASCII. Azurite reads the
// body of a request in pieces, and breaks a character that lies across two of them.
type asciiRows struct{}

// Do implements policy.Policy.
func (asciiRows) Do(req *policy.Request) (*http.Response, error) {
	kind := req.Raw().Header.Get("Content-Type")
	if body := req.Body(); body != nil && strings.HasPrefix(kind, "application/json") {
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, fmt.Errorf("read the body of a request: %w", err)
		}
		if err := req.SetBody(streaming.NopCloser(bytes.NewReader(ascii(text))), kind); err != nil {
			return nil, fmt.Errorf("set the body of a request: %w", err)
		}
	}
	return req.Next()
}

// ascii replaces the characters beyond ASCII in JSON by their escapes.
func ascii(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
