package journey

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// FirstSegment does what a player does to show the first frame: it reads the
// master playlist, the playlist of the first rendition in it, the init segment
// and the first media segment. It returns how many bytes the two have.
func (u *User) FirstSegment(ctx context.Context, id string) (int, error) {
	master := u.base + "/v/" + id + "/master.m3u8"
	text, err := u.fetch(ctx, master)
	if err != nil {
		return 0, err
	}
	variant, err := firstURI(master, text)
	if err != nil {
		return 0, err
	}
	if text, err = u.fetch(ctx, variant); err != nil {
		return 0, err
	}
	initURI, err := initSegment(variant, text)
	if err != nil {
		return 0, err
	}
	segment, err := firstURI(variant, text)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, target := range []string{initURI, segment} {
		body, err := u.fetch(ctx, target)
		if err != nil {
			return 0, err
		}
		total += len(body)
	}
	return total, nil
}

func (u *User) fetch(ctx context.Context, target string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", target, err)
	}
	res, err := u.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", target, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", target, err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %w", target, &Refusal{Status: res.StatusCode, Body: body})
	}
	return body, nil
}

// firstURI is the first line of a playlist that is neither a tag nor empty,
// relative to the playlist.
func firstURI(base string, playlist []byte) (string, error) {
	lines := bufio.NewScanner(bytes.NewReader(playlist))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			return relative(base, line)
		}
	}
	return "", fmt.Errorf("playlist %s has no entry", base)
}

// initSegment is the URI of the EXT-X-MAP tag.
func initSegment(base string, playlist []byte) (string, error) {
	_, rest, ok := strings.Cut(string(playlist), `#EXT-X-MAP:URI="`)
	uri, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		return "", fmt.Errorf("playlist %s has no init segment", base)
	}
	return relative(base, uri)
}

func relative(base, ref string) (string, error) {
	b, err1 := url.Parse(base)
	r, err2 := url.Parse(ref)
	if err := errors.Join(err1, err2); err != nil {
		return "", fmt.Errorf("playlist entry: %w", err)
	}
	return b.ResolveReference(r).String(), nil
}
