module github.com/cutroom/cutroom/docs

go 1.26.0
