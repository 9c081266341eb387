// Package revision contains the controllers of Compositions and CompositionRevisions. They create a revision for each
// state of a composition and validate the pipelines of revisions.
package revision

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// The kinds that the controllers reconcile and read.
var (
	CompositionKind      = v1.GroupVersion.WithKind(v1.CompositionKind)
	RevisionKind         = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)
	FunctionKind         = pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind)
	FunctionRevisionKind = pkgv1.GroupVersion.WithKind(pkgv1.FunctionRevisionKind)
)

// Manager is the field manager of all writes of this package.
const Manager = "espalier.dev/composition"

// Config configures the controllers of compositions and of their revisions. All four kinds should be watched
// completely, because most of their objects are read.
type Config struct {
	Cluster *kube.Client
	Hub     *watch.Hub
	Events  telemetry.Recorder
	// Rollouts counts the outcomes of rollouts.
	Rollouts *telemetry.Rollouts
	Now      func() time.Time
	// Functions are the names of functions that need no Function object: they are part of this program.
	Functions []string
	// CheckInput checks the inputs of functions.
	CheckInput CheckInput
}

// CheckInput lists the problems that make a function fail with an input for every composite of a kind, with paths in
// the input; none if only the function itself can check its input. It returns false while it is unknown what serves
// the function: then the check is repeated when the function's backend is known.
type CheckInput func(function string, input map[string]any, isFirstStep bool, composite schema.GroupVersionKind) (problems diag.List, known bool)
