package definition

import (
	"context"
	"errors"
	"fmt"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

const versionStillStored serving.Reason = "VersionStillStored"

// awaitsMigration reports whether the wanted CustomResourceDefinition lacks a version in which objects may be stored,
// and what that waits for. notRewritten names the objects that the API server refuses to rewrite.
func awaitsMigration(current, wanted *extv1.CustomResourceDefinition, notRewritten string) (readiness serving.Readiness, waits bool) {
	if current == nil {
		return serving.Readiness{}, false
	}
	removed := crd.RemovedStoredVersions(current, wanted)
	if len(removed) == 0 {
		return serving.Readiness{}, false
	}
	out := serving.Readiness{Reason: versionStillStored}
	advice := "They are being rewritten; the version is removed afterwards"
	switch from, to := crd.StorageVersion(current), crd.StorageVersion(wanted); {
	case from != to:
		advice = fmt.Sprintf("List it in spec.versions until they are rewritten, which starts once version %s is referenceable", to)
	case notRewritten != "":
		advice = notRewritten + ". The version is removed once they are"
	default:
		out.Unknown = true
	}
	out.Message = fmt.Sprintf("objects may still be stored in %s (status.storedVersions of CustomResourceDefinition %s). %s",
		strings.Join(removed, ", "), wanted.Name, advice)
	return out, true
}

// migrate rewrites composites and claims that may be stored in a version that was referenceable before, so the
// version can be removed.
func (v *session) migrate(ctx context.Context, out reconcile.Result) reconcile.Result {
	composite, claim := v.ownedCRDs()
	var failed []error
	for _, part := range []struct {
		crd       *extv1.CustomResourceDefinition
		running   *running
		readiness *serving.Readiness
	}{{composite, &v.memory.composite, v.composite}, {claim, &v.memory.claim, v.claim}} {
		if part.crd == nil || !serving.NeedsMigration(part.crd) {
			part.running.migration = nil
			continue
		}
		if !part.readiness.Ready && part.readiness.Reason != versionStillStored {
			continue
		}
		next, step := v.Migrate(ctx, v.Definition, part.running.migration, part.crd, v.Cluster)
		part.running.migration = next
		if next == nil && !part.readiness.Ready {
			v.EnqueueDefinition(v.Key) // the former version may be removed now
		}
		failed = append(failed, step.Err)
		out = out.Within(step.RequeueAfter)
	}
	if err := errors.Join(failed...); err != nil {
		return reconcile.Fail(err)
	}
	return out
}
