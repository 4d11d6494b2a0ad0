package lab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/cutroom/cutroom/e2e/client"
)

func init() { furtherParts = append(furtherParts, part{"scene", plays}) }

// plays: a scene plays in the process that keeps the stack, beside it; each event comes
// once and in order, however often one asks, and in the form of docs/openapi.yaml.
func plays(t *testing.T, s *drill) {
	get := func(path string, status int, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.BaseURL()+"/api/v1/lab/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		decoder := json.NewDecoder(res.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(into); err != nil || res.StatusCode != status {
			t.Fatalf("GET %s: %d, %v; want %d", path, res.StatusCode, err, status)
		}
	}
	var list client.LabScenes
	get("scenes", http.StatusOK, &list)
	i := slices.IndexFunc(list.Items, func(s client.LabScene) bool { return s.Name == "papers-scene" })
	if i < 0 || len(list.Items[i].Rows) == 0 {
		t.Errorf("the scenes are %+v", list)
	}
	res, err := http.Post(s.BaseURL()+"/api/v1/lab/scenes/papers-scene", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var begun client.LabSceneBegun
	if err := json.NewDecoder(res.Body).Decode(&begun); err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatalf("play a scene: %d, %v", res.StatusCode, err)
	}
	var told []client.LabSceneEvent
	for len(told) == 0 || told[len(told)-1].Kind != client.LabSceneEventKindEnd {
		var more client.LabSceneRun
		get(fmt.Sprintf("scene-runs/%s?after=%d", begun.Run, len(told)), http.StatusOK, &more)
		for _, e := range more.Events {
			told = append(told, e)
			if e.Number != len(told) {
				t.Fatalf("event %d is number %d", len(told), e.Number)
			}
		}
	}
	if last := told[len(told)-1]; !last.Holds || len(told) < 15 {
		t.Errorf("%d events, the last is %+v", len(told), last)
	}
	var problem client.Problem
	get("scene-runs/none", http.StatusNotFound, &problem)
	if status, _, problem := s.post("scenes/none", ""); status != http.StatusNotFound || problem.Code != "scene_not_found" {
		t.Errorf("a scene that is not there: %d %+v", status, problem)
	}
}
