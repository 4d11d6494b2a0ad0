//go:build deploy

package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// all returns every query of the dashboard, every rule that records, and every metric
// that an alert reads; and that the alert on poison fires, because something was poison.
func (p *prometheus) all(ctx context.Context, root string) ([]Query, error) {
	queries, err := Dashboard(root)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Type, Query, LastError string }
		}
	}
	if err := p.get(ctx, "/api/v1/rules", &answer); err != nil {
		return nil, err
	}
	alerts := 0
	for _, g := range answer.Groups {
		for _, r := range g.Rules {
			if r.LastError != "" {
				return nil, fmt.Errorf("rule %s: %s", r.Name, r.LastError)
			}
			if r.Type == "recording" {
				queries = append(queries, Query{"rule", r.Name})
				continue
			}
			alerts++
			for _, s := range selector.FindAllString(r.Query, -1) {
				if strings.Contains(s, `status=~`) { // nothing went wrong there
					s, _, _ = strings.Cut(s, "{")
				}
				queries = append(queries, Query{"alert " + r.Name, s})
			}
		}
	}
	if alerts == 0 {
		return nil, fmt.Errorf("no alert is known to Prometheus: %+v", answer)
	}
	return append(queries, Query{"poison", `ALERTS{alertname="CutroomPoison", alertstate="firing"}`}), nil
}

// await asks a query until it has a sample that is a number.
func (p *prometheus) await(ctx context.Context, q Query) error {
	var last error
	for {
		found, err := p.has(ctx, q.Expr)
		if found {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %s has no data (%w)", q.Where, q.Expr, firstOf(last, ctx.Err()))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a query has a sample that is a number.
func (p *prometheus) has(ctx context.Context, expr string) (bool, error) {
	var answer struct {
		Result []struct{ Value [2]any }
	}
	if err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return false, err
	}
	for _, sample := range answer.Result {
		if text, ok := sample.Value[1].(string); ok && text != "NaN" {
			return true, nil
		}
	}
	return false, nil
}

func (p *prometheus) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask Prometheus: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read what Prometheus says: %w", err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: Prometheus says %s", path, answer.Error)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		return fmt.Errorf("read what Prometheus says: %w", err)
	}
	return nil
}
