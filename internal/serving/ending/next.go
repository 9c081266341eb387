// Package ending decides how one of a definition's kinds is removed once the definition is deleted:
// its instances are deleted or orphaned, then its controller stops, then its
// CustomResourceDefinition is deleted, and only then the definition's finalizer is removed.
// See docs/design/0008-deletion.md.
//
// Pure: it decides from values alone.
package ending

// Policy says what a dialect does with a kind of a deleted definition.
type Policy struct {
	// DeleteInstances says that the instances are deleted with the definition. Otherwise the
	// definition waits until users have deleted them.
	DeleteInstances bool
	// Orphan says that instances may be orphaned.
	Orphan bool
	// DeleteCRD says that the CustomResourceDefinition is deleted with the definition, and
	// AwaitCRD that the definition waits until it is gone.
	DeleteCRD, AwaitCRD bool
}

// Facts are the observed state of a kind of a deleted definition.
type Facts struct {
	Policy
	CRD CRD
	// Instances is how many there are, and InstancesUnknown says that this is not known. A kind that was never served
	// has none.
	Instances        int
	InstancesUnknown bool
	// Stopped says that no controller runs for the kind: a count after that is final, because without a controller no
	// instance gets a finalizer.
	Stopped bool
}

// CRD is the state of the CustomResourceDefinition.
type CRD string

// States of a CustomResourceDefinition.
const (
	// Absent: it was never created, is gone, or belongs to another definition.
	Absent CRD = "Absent"
	// Pending: the API server has not served the kind yet, so it never had an instance.
	Pending CRD = "Pending"
	// Established: the API server serves the kind.
	Established CRD = "Established"
	// Terminating: it is being deleted.
	Terminating CRD = "Terminating"
)

// Do is what a step does.
type Do string

// Steps, in their order.
const (
	// KeepServing continues to serve the instances, so they can be deleted, and reports what remains.
	KeepServing Do = "KeepServing"
	// DeleteInstances does the same and deletes them.
	DeleteInstances Do = "DeleteInstances"
	// Stop stops the controller. Gather the facts again after that.
	Stop Do = "Stop"
	// DeleteCRD deletes the CustomResourceDefinition, and AwaitCRD waits until it is gone.
	DeleteCRD Do = "DeleteCRD"
	AwaitCRD  Do = "AwaitCRD"
	// Finish: the definition has nothing more of the kind to wait for.
	Finish Do = "Finish"
)

// Step is the next step.
type Step struct {
	Do Do
	// Orphaned says that instances are orphaned, or may be.
	Orphaned bool
}

// Next decides the next step.
func Next(f Facts) Step {
	remain := f.Instances > 0 || f.InstancesUnknown
	switch {
	case remain && !f.Orphan && f.DeleteInstances && !f.InstancesUnknown:
		return Step{Do: DeleteInstances}
	case remain && !f.Orphan:
		return Step{Do: KeepServing}
	case !f.Stopped:
		return Step{Do: Stop}
	case f.CRD == Absent, remain, !f.DeleteCRD, f.CRD == Terminating && !f.AwaitCRD:
		return Step{Do: Finish, Orphaned: remain}
	case f.CRD == Terminating:
		return Step{Do: AwaitCRD}
	}
	return Step{Do: DeleteCRD}
}
