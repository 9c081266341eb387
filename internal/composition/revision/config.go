// Package revision keeps the history of compositions: each state of one is a revision, the
// newest of which is what the composition is. It also tells of each revision whether its
// pipeline can run.
package revision

import (
	"time"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Kinds of what is seen to, and of what it rests on.
var (
	CompositionKind      = v1.GroupVersion.WithKind(v1.CompositionKind)
	RevisionKind         = v1.GroupVersion.WithKind(v1.CompositionRevisionKind)
	FunctionKind         = pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind)
	FunctionRevisionKind = pkgv1.GroupVersion.WithKind(pkgv1.FunctionRevisionKind)
)

// Manager is the field manager of what is written here.
const Manager = "espalier.dev/composition"

// Config is what the controllers of compositions and of their revisions need. All four
// kinds should be watched as a whole: of each much is read.
type Config struct {
	Cluster *kube.Client
	Hub     *watch.Hub
	Events  telemetry.Recorder
	Now     func() time.Time
	// Functions are the names of those functions that need no Function object: they are
	// part of this program.
	Functions []string
}
