package httpapi

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
	"github.com/cutroom/cutroom/shared/videostore"
	"github.com/cutroom/cutroom/webrole/internal/api"
	"github.com/cutroom/cutroom/webrole/internal/middleware"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/startlist"
)

// maxStartList bounds an import, in bytes: more than a million rows.
const maxStartList = 64 << 20

// ListRegistrations implements GET /events/{event}/registrations: one row range
// for the runners (T5, T7), and one more for the videos when any has finished.
func (s *Server) ListRegistrations(c *gin.Context, event api.Event, params api.ListRegistrationsParams) {
	handle(c, http.StatusOK, func(ctx context.Context) (out api.RegistrationList, _ error) {
		query, err := registrationQuery(params)
		if err != nil {
			return out, err
		}
		ctx, cost := azstore.WithCounter(ctx)
		runners, next, err := s.Races.List(ctx, event, query, params.Limit, params.PageToken)
		if err != nil {
			return out, err
		}
		items, err := s.withMoments(ctx, event, runners)
		return api.RegistrationList{
			Items: items, NextPageToken: api.Some(next), EntitiesRead: cost.Counts().Rows, Requests: cost.Requests(),
		}, err
	})
}

// ListEvents implements GET /events.
func (s *Server) ListEvents(c *gin.Context, params api.ListEventsParams) {
	events, next, err := s.Races.Events(c.Request.Context(), params.Limit, params.PageToken)
	reply(c, http.StatusOK, api.EventList{Items: list(events), NextPageToken: api.Some(next)}, err)
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

// withMoments shows runners with the places of videos where they finish. The
// rows that tie videos to the event are copies, so each video is read itself,
// once for the page: what is gone or not public any more is left out.
func (s *Server) withMoments(ctx context.Context, event registrations.Event, runners []registrations.Registration) ([]api.Registration, error) {
	moments, err := s.Races.MomentsOf(ctx, event, runners)
	if err != nil {
		return nil, err
	}
	items := make([]api.Registration, len(runners))
	shown := map[engine.ID]*videostore.Record{} // nil: not to be shown
	for i, r := range runners {
		items[i] = api.Registration{
			Bib: r.Bib, Name: r.Name, Sex: r.Sex, Age: r.Age, FinishedAt: api.Some(r.FinishedAt),
			Moments: []api.Moment{}, Etag: encodeETag(r.ETag),
		}
		for _, m := range moments[i] {
			rec, known := shown[m.VideoID]
			if !known {
				if rec, err = s.shown(ctx, m.VideoID, false); err != nil {
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
func (s *Server) ImportRegistrations(c *gin.Context, event api.Event) {
	kind, err := wantType(c.Request, "application/json", "text/csv")
	if err != nil {
		refuseBody(c, err)
		return
	}
	middleware.StreamsIn(c.Request)
	body := http.MaxBytesReader(c.Writer, c.Request.Body, maxStartList)
	text := charset.NewReader(body, languagesOf(c.Request)...)
	rows, code := startlist.CSV(text), problem.InvalidBody
	if kind == "application/json" {
		rows, code = startlist.JSON(body), problem.InvalidJSON
	}
	report, err := s.Races.Import(c.Request.Context(), event, rows)
	if err != nil {
		refuseBody(c, importProblem(err, code, report.Accepted))
		return
	}
	if report.Accepted == 0 && report.Refused > 0 && report.Taken == report.Refused {
		problem.Abort(c, problem.New(problem.Code{Name: string(registrations.BibTaken), Status: http.StatusConflict}, "Other runners have the bibs of all rows."))
		return
	}
	if err := s.Races.NoteEvent(c.Request.Context(), event); err != nil {
		problem.Abort(c, err) // what was stored stays: the same import lists the event, too
		return
	}
	c.JSON(http.StatusOK, api.ImportReport{
		Charset: text.Charset(), Accepted: report.Accepted, Unchanged: report.Unchanged, Refused: report.Refused,
		Refusals: list(report.Refusals), Requests: report.Requests,
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
		return problem.New(problem.UndecodableText, "The list cannot be read: %v. In Excel that is the file type CSV UTF-8. %d of its rows are stored; importing all again is safe.", undecodable, stored).Because(err)
	case errors.As(err, &bad):
		return problem.New(code, "Line %d: %s. %d rows before it are stored; importing all again is safe.", bad.Line, bad.Detail, stored).Because(err)
	case errors.As(err, &broken):
		return problem.New(broken.Code, "%s %d of its rows are stored; importing all again is safe.", broken.Detail, stored).Because(err)
	}
	return err
}

// GetRegistration implements GET /events/{event}/registrations/{bib}.
func (s *Server) GetRegistration(c *gin.Context, event api.Event, bib api.BibInPath) {
	s.replyRegistration(c, event, func(ctx context.Context) (registrations.Registration, error) {
		return s.Races.Get(ctx, event, bib)
	})
}

// EditRegistration implements PATCH /events/{event}/registrations/{bib}: all rows
// of the runner move in one transaction (T2, T7).
func (s *Server) EditRegistration(c *gin.Context, event api.Event, bib api.BibInPath, params api.EditRegistrationParams) {
	s.replyRegistration(c, event, func(ctx context.Context) (none registrations.Registration, _ error) {
		ifMatch, err := needIfMatch(params.IfMatch)
		if err != nil {
			return none, err
		}
		body, err := readJSON[api.RegistrationEdit](s, c)
		if err != nil {
			return none, err
		}
		return s.Races.Edit(ctx, event, bib, ifMatch, registrations.Edit{
			Name: body.Name, Sex: body.Sex, Age: body.Age, FinishedAt: body.FinishedAt,
		})
	})
}

func (s *Server) replyRegistration(c *gin.Context, event registrations.Event, find func(context.Context) (registrations.Registration, error)) {
	handle(c, http.StatusOK, func(ctx context.Context) (none api.Registration, _ error) {
		runner, err := find(ctx)
		if err != nil {
			return none, err
		}
		items, err := s.withMoments(ctx, event, []registrations.Registration{runner})
		if err != nil {
			return none, err
		}
		c.Header("ETag", items[0].Etag)
		return items[0], nil
	})
}

// DeleteRegistration implements DELETE /events/{event}/registrations/{bib}. Safe
// to repeat.
func (s *Server) DeleteRegistration(c *gin.Context, event api.Event, bib api.BibInPath, params api.DeleteRegistrationParams) {
	ifMatch, err := decodeIfMatch(params.IfMatch)
	if err == nil {
		err = s.Races.Delete(c.Request.Context(), event, bib, ifMatch)
	}
	if errors.Is(err, registrations.ErrNotFound) {
		err = nil
	}
	reply(c, http.StatusNoContent, nil, err)
}
