package migrate

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/simulation"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// TakeoverFindings are what the controllers would do to a cluster.
type TakeoverFindings struct {
	server.Findings
	// Objects are those that the controllers reconcile, that instances are composed of, and
	// that would be written.
	Objects []preview.Object
	// Failed are the errors of the objects whose last reconcile failed.
	Failed map[object.Key]string
	// Unsettled reports whether the controllers were still busy at the timeout.
	Unsettled bool
}

// PlanTakeover runs the controllers over a cluster until they are idle, or for the timeout at
// most. The API server checks what they write and stores none of it.
func PlanTakeover(ctx context.Context, o server.ManagerOptions, timeout time.Duration) (TakeoverFindings, error) {
	var out TakeoverFindings
	var err error
	if out.Findings, err = server.Check(ctx, o); err != nil {
		return out, err
	}
	if out.Refused != nil {
		return out, nil
	}
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return out, fmt.Errorf("connect to the API server: %w", err)
	}
	out.Notes = append(out.Notes, Notes(ctx, client, engines(o.Dialects), o.Graphs)...)
	if err := simulation.RefuseHeld(ctx, client); err != nil {
		return out, err
	}
	columns, err := simulation.ServesMoreColumns(ctx, client)
	if err != nil {
		return out, err
	}
	o.MoreColumns = o.MoreColumns || columns
	overlay := dryrun.New()
	failures := &simulation.Failures{}
	c, err := server.NewControllers(server.Options{
		Config: overlay.Wrap(o.Config), Settings: o.Simulated(), Log: logr.Discard(), Events: telemetry.NoEvents{}, Observe: failures.Observe,
		Functions: o.Functions, Version: o.Version,
	})
	if err != nil {
		return out, err
	}
	reads, err := dynamic.NewForConfig(overlay.Wrap(o.Config))
	if err != nil {
		return out, fmt.Errorf("connect to the API server: %w", err)
	}
	run := Simulation{
		Simulation: simulation.Simulation{Controllers: simulation.Controlled{Controllers: c}, Overlay: overlay}, Served: c.Engine.Kinds, Client: reads, Caches: c.Hub, Kinds: c.Kinds,
	}
	out.Objects, out.Unsettled, err = run.Run(ctx, timeout)
	out.Failed = failures.Messages()
	out.Notes = append(out.Notes, certificatesNotes(ctx, client, c.Functions)...)
	return out, err
}

// certificatesNotes name the functions that need a client certificate, if none is configured.
func certificatesNotes(ctx context.Context, client dynamic.Interface, functions *packages.Registry) []string {
	list, err := client.Resource(pkgv1.GroupVersion.WithResource("functions")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil // there are no packages, or what cannot be called says so
	}
	var names []string
	for _, o := range list.Items {
		if functions.Route(o.GetName()).Problem.Reason == packages.NoCertificates {
			names = append(names, o.GetName())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"the functions " + strings.Join(names, ", ") + " run in pods of Crossplane's package manager, and need a client certificate: " +
		"set functions.certificatesSecret to crossplane-system/crossplane-tls-client in the file of --config, here and for espalier run"}
}

// engines are the engines that dialects are taken over from.
func engines(dialects []server.Dialect) []managedfields.Engine {
	out := make([]managedfields.Engine, 0, len(dialects))
	for _, d := range dialects {
		if d == server.Composition {
			out = append(out, managedfields.Crossplane)
		} else {
			out = append(out, managedfields.KRO)
		}
	}
	return out
}
