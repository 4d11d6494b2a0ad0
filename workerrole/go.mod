module github.com/cutroom/cutroom/workerrole

go 1.26.0

require (
	github.com/Eyevinn/mp4ff v0.51.0
	github.com/aws/aws-sdk-go v1.38.20 // indirect
	github.com/cutroom/cutroom/shared v0.0.0-00010101000000-000000000000
	github.com/jmespath/go-jmespath v0.4.0 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	github.com/u2takey/ffmpeg-go v0.5.0
	github.com/u2takey/go-utils v0.3.1 // indirect
)

replace github.com/cutroom/cutroom/shared => ../shared
