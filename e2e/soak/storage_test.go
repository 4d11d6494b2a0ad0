package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cutroom/cutroom/shared/azq"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/workflow"
)

// storage reads an account from outside, with the SDK's own clients: what the
// roles' packages would hide is seen.
type storage struct{ account *azstore.Account }

// row is an entity as the service has it.
type row map[string]any

func (r row) text(name string) string {
	s, _ := r[name].(string)
	return s
}

func (r row) number(name string) int {
	n, _ := r[name].(float64)
	return int(n)
}

func (r row) partition() string { return r.text("PartitionKey") }
func (r row) key() string       { return r.text("RowKey") }
func (r row) all() string       { return fmt.Sprint(map[string]any(r)) }

// tables are the names of all tables.
func (s storage) tables(ctx context.Context) ([]string, error) {
	var names []string
	for pager := s.account.Tables.NewListTablesPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		for _, t := range page.Tables {
			names = append(names, *t.Name)
		}
	}
	return names, nil
}

// rows are all rows of a table.
func (s storage) rows(ctx context.Context, table string) ([]row, error) {
	var rows []row
	for pager := s.account.Tables.NewClient(table).NewListEntitiesPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", table, err)
		}
		for _, text := range page.Entities {
			var r row
			if err := json.Unmarshal(text, &r); err != nil {
				return nil, fmt.Errorf("read table %s: %w", table, err)
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// queues are the lengths of all queues, hidden messages included.
func (s storage) queues(ctx context.Context) (map[string]int, error) {
	lengths := map[string]int{}
	for pager := s.account.Queues.NewListQueuesPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list queues: %w", err)
		}
		for _, q := range page.Queues {
			state, err := s.account.Queues.NewQueueClient(*q.Name).GetProperties(ctx, nil)
			if err != nil {
				return nil, fmt.Errorf("length of queue %s: %w", *q.Name, err)
			}
			lengths[*q.Name] = int(*state.ApproximateMessagesCount)
		}
	}
	return lengths, nil
}

// sendAgain sends the first chunk of a video that is being finished once more.
func (s storage) sendAgain(ctx context.Context, finish stepID) error {
	var generation int
	if _, err := fmt.Sscanf(finish.key, "STEP:%d:finish", &generation); err != nil {
		return fmt.Errorf("read step %s: %w", finish.key, err)
	}
	key := engine.Key{ID: engine.ID(finish.video), Generation: generation, Step: workflow.StepEncode}
	id := key.ItemID()
	item, err := azq.NewItem(key.Step, finish.video, id, key.Payload())
	if err != nil {
		return fmt.Errorf("make item %s: %w", id, err)
	}
	// As senders do: the video must not be finished before workers look at the queue.
	return azq.OpenQueue(s.account, azq.Spec{Name: workflow.EncodeFirst}).Send(ctx, item, 0, 0)
}

// blobs are the names of all blobs, by container.
func (s storage) blobs(ctx context.Context) (map[string][]string, error) {
	found := map[string][]string{}
	for pager := s.account.Blobs.NewListContainersPager(nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list containers: %w", err)
		}
		for _, c := range page.ContainerItems {
			names := found[*c.Name]
			for list := s.account.Blobs.NewContainerClient(*c.Name).NewListBlobsFlatPager(nil); list.More(); {
				page, err := list.NextPage(ctx)
				if err != nil {
					return nil, fmt.Errorf("list blobs of %s: %w", *c.Name, err)
				}
				for _, b := range page.Segment.BlobItems {
					names = append(names, *b.Name)
				}
			}
			found[*c.Name] = names
		}
	}
	return found, nil
}

const idLength = 26

// owner is the video that a blob belongs to by its name, or "".
func owner(blob string) string {
	id, _, ok := strings.Cut(blob, "/")
	if !ok || len(id) != idLength || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return ""
	}
	return id
}

// truth is what table "videos" says about one video.
type truth struct {
	meta  row
	doc   metaDoc
	steps map[string]row // by RowKey, STEP: and CLIP:
	plans map[string]planDoc
	rows  []row
}

type metaDoc struct {
	State      string `json:"state"`
	Playable   bool   `json:"playable"`
	Generation int    `json:"generation"`
	Serving    int    `json:"serving"`
	Upload     struct {
		Epoch string `json:"epoch"`
	} `json:"upload"`
	Error *struct {
		Code string `json:"code"`
	} `json:"error"`
}

type planDoc struct {
	Chunks     []struct{} `json:"chunks"`
	HasAudio   bool       `json:"hasAudio"`
	Renditions []struct {
		Name string `json:"name"`
	} `json:"renditions"`
}

const videosTable = "videos"

// truths reads table "videos" and sorts its rows by video.
func (s storage) truths(ctx context.Context) (map[string]*truth, error) {
	rows, err := s.rows(ctx, videosTable)
	if err != nil {
		return nil, err
	}
	all := map[string]*truth{}
	for _, r := range rows {
		t := all[r.partition()]
		if t == nil {
			t = &truth{steps: map[string]row{}, plans: map[string]planDoc{}}
			all[r.partition()] = t
		}
		t.rows = append(t.rows, r)
		kind, _, _ := strings.Cut(r.key(), ":")
		switch kind {
		case "META":
			t.meta = r
			err = json.Unmarshal([]byte(r.text("Doc")), &t.doc)
		case "PLAN":
			var p planDoc
			err = json.Unmarshal([]byte(r.text("Doc")), &p)
			t.plans[r.key()] = p
		case "STEP", "CLIP":
			t.steps[r.key()] = r
		}
		if err != nil {
			return nil, fmt.Errorf("read row %s of %s: %w", r.key(), r.partition(), err)
		}
	}
	return all, nil
}

// planned reports whether the probe of a new video is committed.
func (s storage) planned(ctx context.Context, id string) bool {
	_, err := s.account.Tables.NewClient(videosTable).GetEntity(ctx, id, "PLAN:00001", nil)
	return err == nil
}

// stopped: no step will run until it is requested.
func (t *truth) stopped() bool { return t.doc.State == "cancelled" || t.doc.State == "failed" }

// playing is the plan of the generation that plays.
func (t *truth) playing() planDoc {
	generation := t.doc.Serving
	if generation == 0 {
		generation = t.doc.Generation
	}
	return t.plans[fmt.Sprintf("PLAN:%05d", generation)]
}
