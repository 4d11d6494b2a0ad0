package httpapi

import (
	"context"

	"github.com/gin-gonic/gin"

	"github.com/cutroom/cutroom/webrole/internal/problem"
)

// handle answers with what do returns, or with the problem that its error stands for.
func handle[T any](c *gin.Context, status int, do func(context.Context) (T, error)) {
	body, err := do(c.Request.Context())
	reply(c, status, body, err)
}

// reply answers with a body as JSON, or with the problem that err stands for.
func reply(c *gin.Context, status int, body any, err error) {
	if err != nil {
		problem.Abort(c, err)
		return
	}
	c.JSON(status, body)
}

// replyEmpty is reply without a body.
func replyEmpty(c *gin.Context, status int, err error) {
	if err != nil {
		problem.Abort(c, err)
		return
	}
	c.Status(status)
	c.Writer.WriteHeaderNow()
}

// list makes JSON's [] of a nil slice.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
