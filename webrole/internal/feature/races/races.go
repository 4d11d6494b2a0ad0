// Package races keeps the runners of races, and shows where in videos they finish.
package races

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
	"golang.org/x/text/language"

	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/charset"
	"github.com/cutroom/cutroom/shared/engine"
	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/shared/video"
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/httpapi"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/startlist"
	"github.com/cutroom/cutroom/webrole/internal/web"
)

// Races is safe for concurrent use.
type Races struct {
	*httpapi.Server
	Store *registrations.Store
}

// undecodableText says that a list is in no encoding that is known.
var undecodableText = problem.Code{Name: "undecodable_text", Status: http.StatusBadRequest}

// New returns the feature.
func New(account *azstore.Account, core *httpapi.Server) web.Feature {
	f := feature(&Races{core, registrations.New(account)})
	f.Tables = []string{registrations.Table}
	f.Pages = func(_ gin.IRouter, show web.Show) { show("/race", "race", web.Nothing) }
	f.Problems = []problem.Answer{
		problem.When(registrations.ErrNotFound, problem.NotFound, "No runner has this bib."),
		problem.When(registrations.ErrChanged, problem.PreconditionFail, "The registration was changed in the meantime. Read it again."),
		problem.When(registrations.ErrContended, problem.StorageBusy, "Others change the same runners now. Nothing is lost; try again soon."),
		Refused,
	}
	f.Check = func(v video.Video) error {
		if v.Race == nil {
			return nil
		}
		_, err := registrations.CheckRace(*v.Race)
		return err
	}
	return f
}

// Refused is the answer to what cannot be taken.
func Refused(err error) *problem.Error {
	if invalid, is := errors.AsType[*registrations.Invalid](err); is {
		return problem.New(problem.Code{Name: string(invalid.Code), Status: http.StatusBadRequest}, "Not taken: %s.", invalid.Detail)
	}
	return nil
}

// maxStartList bounds an import, in bytes: more than a million rows.
const maxStartList = 64 << 20

// ListRegistrations implements GET /events/{event}/registrations: one row range
// for the runners (T5, T7), and one more for the videos when any has finished.
func (s *Races) ListRegistrations(c *gin.Context, event api.Event, params api.ListRegistrationsParams) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (out api.RegistrationList, _ error) {
		query, err := registrationQuery(params)
		if err != nil {
			return out, err
		}
		ctx, cost := azstore.WithCounter(ctx)
		runners, next, err := s.Store.List(ctx, event, query, params.Limit, params.PageToken)
		if err != nil {
			return out, err
		}
		items, err := s.WithMoments(ctx, event, runners)
		return api.RegistrationList{
			Items: items, NextPageToken: api.Some(next), EntitiesRead: cost.Counts().Rows, Requests: cost.Requests(),
		}, err
	})
}

// ListEvents implements GET /events.
func (s *Races) ListEvents(c *gin.Context, params api.ListEventsParams) {
	events, next, err := s.Store.Events(c.Request.Context(), params.Limit, params.PageToken)
	web.Reply(c, http.StatusOK, api.EventList{Items: web.List(events), NextPageToken: api.Some(next)}, err)
}

// registrationQuery wants one of the three ways to ask.
func registrationQuery(p api.ListRegistrationsParams) (registrations.Query, error) {
	ages := p.AgeFrom != nil || p.AgeTo != nil
	switch {
	case p.Bib != nil && p.Age != nil, p.Bib != nil && ages, p.Age != nil && ages:
		return registrations.Query{}, problem.New(problem.InvalidParameter, "Ask by bib, by age, or by ageFrom and ageTo: one of the three.")
	case p.Age != nil:
		return registrations.Query{AgeFrom: p.Age, AgeTo: p.Age}, nil
	}
	return registrations.Query{Bib: p.Bib, AgeFrom: p.AgeFrom, AgeTo: p.AgeTo}, nil
}

// WithMoments shows runners with the places of videos where they finish. The
// rows that tie videos to the event are copies, so each video is read itself,
// once for the page: what is gone or not public any more is left out.
func (s *Races) WithMoments(ctx context.Context, event registrations.Event, runners []registrations.Registration) ([]api.Registration, error) {
	moments, err := s.Store.MomentsOf(ctx, event, runners)
	if err != nil {
		return nil, err
	}
	items := make([]api.Registration, len(runners))
	shown := map[engine.ID]*videostore.Record{} // nil: not to be shown
	for i, r := range runners {
		items[i] = api.Registration{
			Bib: r.Bib, Name: r.Name, Sex: r.Sex, Age: r.Age, FinishedAt: api.Some(r.FinishedAt),
			Moments: []api.Moment{}, Etag: web.EncodeETag(r.ETag),
		}
		for _, m := range moments[i] {
			rec, known := shown[m.VideoID]
			if !known {
				if rec, err = s.Shown(ctx, m.VideoID, false); err != nil {
					return nil, err
				}
				shown[m.VideoID] = rec
			}
			if rec != nil {
				items[i].Moments = append(items[i].Moments, api.Moment{
					VideoId: string(m.VideoID), Title: rec.Subject.Title, AtSeconds: m.At.Seconds(),
					Watch: fmt.Sprintf("/watch/%s#t=%.3f", m.VideoID, m.At.Seconds()),
				})
			}
		}
	}
	return items, nil
}

// ImportRegistrations implements POST /events/{event}/registrations. The body is
// read as it is stored; what was stored stays when the rest cannot be read, and
// repeating the import is safe.
func (s *Races) ImportRegistrations(c *gin.Context, event api.Event) {
	kind, err := web.WantType(c.Request, "application/json", "text/csv")
	if err != nil {
		web.RefuseBody(c, err)
		return
	}
	middleware.StreamsIn(c.Request)
	body := http.MaxBytesReader(c.Writer, c.Request.Body, maxStartList)
	text := charset.NewReader(body, languagesOf(c.Request)...)
	rows, code := startlist.CSV(text), problem.InvalidBody
	if kind == "application/json" {
		rows, code = startlist.JSON(body), problem.InvalidJSON
	}
	report, err := s.Store.Import(c.Request.Context(), event, rows)
	if err != nil {
		web.RefuseBody(c, importProblem(err, code, report.Accepted))
		return
	}
	if report.Accepted == 0 && report.Refused > 0 && report.Taken == report.Refused {
		problem.Abort(c, problem.New(problem.Code{Name: string(registrations.BibTaken), Status: http.StatusConflict}, "Other runners have the bibs of all rows."))
		return
	}
	if err := s.Store.NoteEvent(c.Request.Context(), event); err != nil {
		problem.Abort(c, err) // what was stored stays: the same import lists the event, too
		return
	}
	c.JSON(http.StatusOK, api.ImportReport{
		Charset: text.Charset(), Accepted: report.Accepted, Unchanged: report.Unchanged, Refused: report.Refused,
		Refusals: web.List(report.Refusals), Requests: report.Requests,
	})
}

// languagesOf are those that the sender of a request reads, the likeliest first: a list
// is probably in one of them. A header that cannot be read tells none.
func languagesOf(r *http.Request) []language.Tag {
	const most = 10
	tags, _, _ := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	return tags[:min(len(tags), most)]
}

// importProblem says where a list could not be read any further.
func importProblem(err error, code problem.Code, stored int) error {
	var bad *startlist.FormatError
	var undecodable *charset.Error
	var broken *problem.Error // the body came too slowly, or not all of it
	switch {
	case errors.As(err, &undecodable):
		return problem.New(undecodableText, "The list cannot be read: %v. In Excel that is the file type CSV UTF-8. %d of its rows are stored; importing all again is safe.", undecodable, stored).Because(err)
	case errors.As(err, &bad):
		return problem.New(code, "Line %d: %s. %d rows before it are stored; importing all again is safe.", bad.Line, bad.Detail, stored).Because(err)
	case errors.As(err, &broken):
		return problem.New(broken.Code, "%s %d of its rows are stored; importing all again is safe.", broken.Detail, stored).Because(err)
	}
	return err
}

// GetRegistration implements GET /events/{event}/registrations/{bib}.
func (s *Races) GetRegistration(c *gin.Context, event api.Event, bib api.BibInPath) {
	s.replyRegistration(c, event, func(ctx context.Context) (registrations.Registration, error) {
		return s.Store.Get(ctx, event, bib)
	})
}

// EditRegistration implements PATCH /events/{event}/registrations/{bib}: all rows
// of the runner move in one transaction (T2, T7).
func (s *Races) EditRegistration(c *gin.Context, event api.Event, bib api.BibInPath, params api.EditRegistrationParams) {
	s.replyRegistration(c, event, func(ctx context.Context) (none registrations.Registration, _ error) {
		ifMatch, err := web.NeedIfMatch(params.IfMatch)
		if err != nil {
			return none, err
		}
		body, err := web.ReadJSON[api.RegistrationEdit](c)
		if err != nil {
			return none, err
		}
		return s.Store.Edit(ctx, event, bib, ifMatch, registrations.Edit{
			Name: body.Name, Sex: body.Sex, Age: body.Age, FinishedAt: body.FinishedAt,
		})
	})
}

func (s *Races) replyRegistration(c *gin.Context, event registrations.Event, find func(context.Context) (registrations.Registration, error)) {
	web.Handle(c, http.StatusOK, func(ctx context.Context) (none api.Registration, _ error) {
		runner, err := find(ctx)
		if err != nil {
			return none, err
		}
		items, err := s.WithMoments(ctx, event, []registrations.Registration{runner})
		if err != nil {
			return none, err
		}
		c.Header("ETag", items[0].Etag)
		return items[0], nil
	})
}

// DeleteRegistration implements DELETE /events/{event}/registrations/{bib}. Safe
// to repeat.
func (s *Races) DeleteRegistration(c *gin.Context, event api.Event, bib api.BibInPath, params api.DeleteRegistrationParams) {
	ifMatch, err := web.DecodeIfMatch(params.IfMatch)
	if err == nil {
		err = s.Store.Delete(c.Request.Context(), event, bib, ifMatch)
	}
	if errors.Is(err, registrations.ErrNotFound) {
		err = nil
	}
	web.Reply(c, http.StatusNoContent, nil, err)
}
