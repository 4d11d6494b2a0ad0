package lab

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cutroom/cutroom/e2e/client"
	"github.com/cutroom/cutroom/shared/azstore"
	"github.com/cutroom/cutroom/shared/azstore/inject"
)

// fault is what disturbs one service.
type fault struct {
	client.LabFault
	before int // requests that had met such a fault before
}

var services = map[client.LabService]azstore.Service{
	client.LabBlob: azstore.Blobs, client.LabQueue: azstore.Queues, client.LabTable: azstore.Tables,
}

var faultKinds = map[client.LabFaultKind]inject.Fault{
	client.LabSlow: inject.Delay, client.LabBusy: inject.ServerBusy, client.LabReset: inject.Reset,
	client.LabLostReply: inject.LostReply, client.LabBlackHole: inject.Silence,
}

// meaning completes "… of the requests to the tables".
var meaning = map[client.LabFaultKind]string{
	client.LabSlow: "are late by up to 3 s", client.LabBusy: "are answered 503 ServerBusy", client.LabReset: "end in a broken connection",
	client.LabLostReply: "are carried out and not answered", client.LabBlackHole: "are not answered at all",
}

func (b *bench) disturb(_ *http.Request, asked client.LabStorage) (client.LabDone, error) {
	service, known := services[asked.Service]
	if !known {
		return client.LabDone{}, invalid("Member /service: blob, queue or table.")
	}
	if asked.Fault == client.LabNone {
		b.mu.Lock()
		delete(b.faults, service)
		b.mu.Unlock()
		b.proxy.Begin(inject.Burst{Service: service})
		return client.LabDone{Says: fmt.Sprintf("Nothing disturbs the %ss any more.", asked.Service)}, nil
	}
	kind, known := faultKinds[asked.Fault]
	if !known {
		return client.LabDone{}, invalid("Member /fault: slow, busy, reset, lost_reply, black_hole or none.")
	}
	share, length := usualShare, usualFault
	if asked.Share != nil {
		share = *asked.Share
	}
	if asked.Seconds != nil {
		length = time.Duration(*asked.Seconds) * time.Second
	}
	if !(share >= leastShare && share <= 1) {
		return client.LabDone{}, invalid("Member /share: from %g to 1.", leastShare)
	}
	if length < time.Second || length > maxFault {
		return client.LabDone{}, invalid("Member /seconds: from 1 to %.0f.", maxFault.Seconds())
	}
	until := time.Now().Add(length)
	b.mu.Lock()
	b.faults[service] = fault{
		client.LabFault{Service: asked.Service, Fault: asked.Fault, Share: share, Until: until}, b.proxy.Met(service, kind),
	}
	b.mu.Unlock()
	b.proxy.Begin(inject.Burst{Service: service, Fault: kind, Share: share, Length: length})
	return client.LabDone{Until: &until, Says: fmt.Sprintf("For %.0f s, %.0f %% of the requests to the %ss %s.",
		length.Seconds(), 100*share, asked.Service, meaning[asked.Fault])}, nil
}

// storage lists what disturbs the storage now. The caller holds mu.
func (b *bench) storage() []client.LabFault {
	list := []client.LabFault{}
	for service, f := range b.faults {
		if time.Now().Before(f.Until) {
			f.Met = b.proxy.Met(service, faultKinds[f.Fault]) - f.before
			list = append(list, f.LabFault)
		}
	}
	slices.SortFunc(list, func(a, b client.LabFault) int { return cmp.Compare(a.Service, b.Service) })
	return list
}
