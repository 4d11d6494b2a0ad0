package stacktest

import (
	"strings"
	"testing"

	"github.com/cutroom/cutroom/shared/apikeys"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/azuritetest"
)

func TestMain(m *testing.M) { azuritetest.Main(m) }

// TestSecretsAreKnown: what logs and spans are searched for finds each kind of secret, and
// nothing that logs are full of.
func TestSecretsAreKnown(t *testing.T) {
	t.Parallel()
	account := azuritetest.Account(t)
	if err := account.Ensure(t.Context(), azstore.Names{Tables: []string{apikeys.Table}}); err != nil {
		t.Fatal(err)
	}
	_, key, err := apikeys.New(account).Create(t.Context(), apikeys.Key{Name: "x", Owner: "y", Role: "viewer"})
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"an account key": "AccountName=a;AccountKey=c2VjcmV0;", "a signature": "http://127.0.0.1/a/b?sv=1&sig=abcd%2Befgh12", "Azurite's key": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1",
		"a session": "Cookie: __Host-session=MTc2", "a sign-in": "__Host-signin=MTc2", "an API key": "who=" + key,
		"a token of playback": "GET /v/" + strings.Repeat("a", 26) + "/~eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIiwiZXhwIjoxfQ.Abcdefghijklmnop_-1234/720p/0.m4s",
		"a bearer token":      `"Authorization":["Bearer a-token-of-enough-letters"]`, "a token in a query": "?auth=bearer%20a-token-of-enough-letters", "a password": "authorization: Basic OmEtdG9rZW4tb2YtZW5vdWdo",
		"a lab": "CUTROOM_LAB=http://lab:CNQ3JZ7WRLFWHXNQ@127.0.0.1:40000",
	} {
		if Secret("level=INFO msg=x "+text+"\n") == "" {
			t.Errorf("%s is not found in %q", what, text)
		}
	}
	for _, text := range []string{
		"AccountKey=***;", "sig=***", "keyId=q6h4zt2mwc5a key_q6h4zt2mwc5a", "poison=probe~0f2d6c1e-4b5a-4c8e-9a34-1b2c3d4e5f60", "path=/v/" + strings.Repeat("a", 26) + "/720p/0.m4s",
		"bearer tokens are refused", "basic things", "WWW-Authenticate: Bearer realm=cutroom", "lab=true", "http://127.0.0.1:40000/api/v1/lab", "took=~1.5s",
	} {
		if found := Secret(text); found != "" {
			t.Errorf("%q has a secret: %q", text, found)
		}
	}
}
