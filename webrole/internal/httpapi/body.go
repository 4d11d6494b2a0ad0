package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/edge"
	"github.com/cutroom/cutroom/webrole/internal/problem"
	"github.com/cutroom/cutroom/webrole/internal/strictjson"
)

// maxJSON bounds JSON bodies, in bytes.
const maxJSON = 64 << 10

// readJSON reads a body into dst: bounded, strict, and fitting the named schema
// of the document.
func (s *Server) readJSON(c *gin.Context, schema string, dst any) error {
	if err := wantJSON(c.Request); err != nil {
		return err
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxJSON))
	if err != nil {
		return bodyReadProblem(err)
	}
	if err := strictjson.Check(data); err != nil {
		return problem.New(http.StatusBadRequest, problem.InvalidJSON, "The body is not strict JSON.").Because(err)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return problem.New(http.StatusBadRequest, problem.InvalidJSON, "The body is not strict JSON.").Because(err)
	}
	if err := s.doc.Components.Schemas[schema].Value.VisitJSON(value, openapi3.VisitAsRequest()); err != nil {
		return bodyProblem(err)
	}
	if err := json.Unmarshal(data, dst); err != nil {
		return problem.New(http.StatusBadRequest, problem.InvalidBody, "The body does not fit the API's document.").Because(err)
	}
	return nil
}

func wantJSON(r *http.Request) error {
	_, err := wantType(r, "application/json")
	return err
}

// wantType returns the body's media type, which must be one of types.
func wantType(r *http.Request, types ...string) (string, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return "", problem.New(http.StatusUnsupportedMediaType, problem.UnsupportedType, "Compressed bodies are not taken.")
	}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := parameters["charset"]
	if err != nil || !slices.Contains(types, kind) || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return "", problem.New(http.StatusUnsupportedMediaType, problem.UnsupportedType, "The body must be %s, in UTF-8.", strings.Join(types, " or "))
	}
	return kind, nil
}

// bodyReadProblem tells a body that is too large or too slow (which package
// problem knows) from one that broke off.
func bodyReadProblem(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) || errors.Is(err, edge.ErrSlow) {
		return fmt.Errorf("read body: %w", err)
	}
	return problem.New(http.StatusBadRequest, problem.BodyIncomplete, "The body ended before its Content-Length.").Because(err)
}
