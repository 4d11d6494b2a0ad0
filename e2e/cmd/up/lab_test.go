package main

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/cutroom/cutroom/e2e/stack"
)

func TestUpHasALab(t *testing.T) {
	t.Parallel()
	out, err := newCheckout(t).run(t.Context())
	if err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	base := regexp.MustCompile(`http://\S+`).FindString(out)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/lab", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(stack.Worker(2))) {
		t.Errorf("the lab: %d %s", res.StatusCode, body)
	}
}
