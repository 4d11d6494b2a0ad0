package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/shared/registrations"
	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// checkParameters checks path, query and header values against the document
// before the generated code reads them. Bodies are checked by readJSON, which
// bounds them first.
func (s *Server) checkParameters(c *gin.Context) {
	template := documentPath(c.FullPath())
	item := s.doc.Paths.Value(template)
	operation := item.GetOperation(c.Request.Method)
	parameters := slices.Concat(item.Parameters, operation.Parameters)
	if err := onlyKnown(c, parameters); err != nil {
		problem.Abort(c, err)
		return
	}
	values := map[string]string{}
	for _, p := range c.Params {
		values[p.Key] = p.Value
	}
	input := &openapi3filter.RequestValidationInput{
		Request: c.Request, PathParams: values,
		Route: &routers.Route{Spec: s.doc, Path: template, PathItem: item, Method: c.Request.Method, Operation: operation},
	}
	// Parameter by parameter: ValidateRequest would read the whole body into
	// memory as soon as the document has a security requirement.
	for _, parameter := range parameters {
		if err := openapi3filter.ValidateParameter(c.Request.Context(), input, parameter.Value); err != nil {
			problem.Abort(c, parameterProblem(err))
			return
		}
	}
}

// documentPath turns Gin's /api/v1/videos/:id into the document's /videos/{id}.
func documentPath(ginPath string) string {
	parts := strings.Split(strings.TrimPrefix(ginPath, Base), "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

// onlyKnown refuses query parameters that the document does not have: a
// misspelt filter must not look like one that matched everything.
func onlyKnown(c *gin.Context, parameters openapi3.Parameters) error {
	for name, given := range c.Request.URL.Query() {
		known := slices.ContainsFunc(parameters, func(p *openapi3.ParameterRef) bool {
			return p.Value.In == openapi3.ParameterInQuery && p.Value.Name == name
		})
		if !known {
			return problem.New(problem.InvalidParameter, "The request has a query parameter that this operation does not know.")
		}
		if len(given) > 1 {
			return problem.New(problem.InvalidParameter, "The query parameter %q is given more than once.", name)
		}
	}
	return nil
}

func parameterProblem(err error) error {
	var bad *openapi3filter.RequestError
	if !errors.As(err, &bad) || bad.Parameter == nil {
		return problem.New(problem.InvalidParameter, "The request does not fit the API's document.").Because(err)
	}
	code, reason := problem.InvalidParameter, "it is not valid"
	switch {
	case bad.Parameter.Name == "id" && bad.Parameter.In == openapi3.ParameterInPath:
		code = problem.InvalidID
	case bad.Parameter.Name == "event" && bad.Parameter.In == openapi3.ParameterInPath:
		code = problem.Code{Name: string(registrations.InvalidEvent), Status: http.StatusBadRequest}
	case bad.Parameter.Name == "pageToken":
		code = problem.InvalidPageToken
	}
	var schema *openapi3.SchemaError
	if errors.As(err, &schema) {
		reason = schema.Reason
	}
	return problem.New(code, "Parameter %q: %s.", bad.Parameter.Name, reason).Because(err)
}
