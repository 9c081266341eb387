// Package ending decides how one of a definition's kinds ends once the definition is deleted:
// its instances are deleted or left behind, then its controller stops, then its
// CustomResourceDefinition is deleted, and only then the definition's finalizer is removed.
//
// Pure: it decides from values alone.
package ending

// Policy is what a dialect wants of the end of a kind.
type Policy struct {
	// DeleteInstances says that the instances are deleted with the definition. Otherwise the
	// definition waits until users have deleted them.
	DeleteInstances bool
	// Orphan says that instances may be left behind.
	Orphan bool
	// DeleteCRD says that the CustomResourceDefinition is deleted with the definition, and
	// AwaitCRD that the definition waits until it is gone.
	DeleteCRD, AwaitCRD bool
}

// Facts are what is known of a kind whose definition is deleted.
type Facts struct {
	Policy
	CRD CRD
	// Instances is how many there are, and InstancesUnknown says that this is not known. A kind that was never served
	// has none.
	Instances        int
	InstancesUnknown bool
	// Stopped says that no controller runs for the kind: what was counted after that is all there is, since without a
	// controller no instance gets a finalizer.
	Stopped bool
}

// CRD is the state of the CustomResourceDefinition.
type CRD string

// States of a CustomResourceDefinition.
const (
	// Absent: it was never made, is gone, or belongs to another definition.
	Absent CRD = "Absent"
	// Pending: the API server has not served the kind yet, so that it never had an instance.
	Pending CRD = "Pending"
	// Established: the API server serves the kind.
	Established CRD = "Established"
	// Terminating: it is being deleted.
	Terminating CRD = "Terminating"
)

// Do is what a step does.
type Do string

// Steps, in the order in which they are met.
const (
	// KeepServing continues to serve the instances, so that they can be deleted, and reports
	// what remains.
	KeepServing Do = "KeepServing"
	// DeleteInstances does the same and deletes them.
	DeleteInstances Do = "DeleteInstances"
	// Stop stops the controller. The facts are to be gathered again then.
	Stop Do = "Stop"
	// DeleteCRD deletes the CustomResourceDefinition, and AwaitCRD waits until it is gone.
	DeleteCRD Do = "DeleteCRD"
	AwaitCRD  Do = "AwaitCRD"
	// Finish: nothing of the kind is left that the definition has to wait for.
	Finish Do = "Finish"
)

// Step is what is to be done next.
type Step struct {
	Do Do
	// Orphaned says that instances are left behind, or may be.
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
