package ending

import "testing"

func TestNext(t *testing.T) {
	waits := Policy{DeleteCRD: true}                                          // a definition that waits for its instances
	deletes := Policy{DeleteInstances: true, DeleteCRD: true, AwaitCRD: true} // one that deletes them
	for name, tc := range map[string]struct {
		facts Facts
		want  Step
	}{
		"instances are waited for":                          {Facts{Policy: waits, CRD: Established, Instances: 2}, Step{Do: KeepServing}},
		"also with the controller stopped":                  {Facts{Policy: waits, CRD: Established, Instances: 1, Stopped: true}, Step{Do: KeepServing}},
		"or deleted":                                        {Facts{Policy: deletes, CRD: Established, Instances: 2}, Step{Do: DeleteInstances}},
		"what is not known is waited for":                   {Facts{Policy: waits, CRD: Established, InstancesUnknown: true}, Step{Do: KeepServing}},
		"and not deleted":                                   {Facts{Policy: deletes, CRD: Established, InstancesUnknown: true}, Step{Do: KeepServing}},
		"without instances the controller stops":            {Facts{Policy: waits, CRD: Established}, Step{Do: Stop}},
		"before the kind goes":                              {Facts{Policy: waits, CRD: Established, Stopped: true}, Step{Do: DeleteCRD}},
		"a kind that may stay stays":                        {Facts{CRD: Established, Stopped: true}, Step{Do: Finish}},
		"a kind that was never served goes":                 {Facts{Policy: deletes, CRD: Pending, Stopped: true}, Step{Do: DeleteCRD}},
		"a kind that is going is waited for":                {Facts{Policy: deletes, CRD: Terminating, Stopped: true}, Step{Do: AwaitCRD}},
		"or not":                                            {Facts{Policy: waits, CRD: Terminating, Stopped: true}, Step{Do: Finish}},
		"the instances of a kind that is going still count": {Facts{Policy: deletes, CRD: Terminating, Instances: 1}, Step{Do: DeleteInstances}},
		"nothing is left":                                   {Facts{Policy: deletes, CRD: Absent, Stopped: true}, Step{Do: Finish}},
		"what serves a kind that is gone stops":             {Facts{Policy: deletes, CRD: Absent}, Step{Do: Stop}},
		"orphans are left behind once no controller runs":   {Facts{Policy: Policy{Orphan: true, DeleteCRD: true}, CRD: Established, Instances: 3}, Step{Do: Stop}},
		"with their kind":                                   {Facts{Policy: Policy{Orphan: true, DeleteCRD: true}, CRD: Established, Instances: 3, Stopped: true}, Step{Do: Finish, Orphaned: true}},
		"also if it is not known whether there are any":     {Facts{Policy: Policy{Orphan: true, DeleteCRD: true}, CRD: Established, InstancesUnknown: true, Stopped: true}, Step{Do: Finish, Orphaned: true}},
		"leave to orphan does not keep a kind without any":  {Facts{Policy: Policy{Orphan: true, DeleteCRD: true}, CRD: Established, Stopped: true}, Step{Do: DeleteCRD}},
	} {
		if got := Next(tc.facts); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestEveryKindFinishes follows the steps from each state, with an environment that does what it is told: none goes
// round in a circle.
func TestEveryKindFinishes(t *testing.T) {
	bools := []bool{false, true}
	for _, crd := range []CRD{Absent, Pending, Established, Terminating} {
		for _, instances := range []int{0, 2} {
			for bits := range 32 {
				f := Facts{CRD: crd, Policy: Policy{DeleteInstances: bools[bits&1], Orphan: bools[bits>>1&1], DeleteCRD: bools[bits>>2&1], AwaitCRD: bools[bits>>3&1]}, Stopped: bools[bits>>4&1]}
				if crd == Established || crd == Terminating {
					f.Instances = instances
				}
				begin, done := f, false
				for range 10 {
					switch Next(f).Do {
					case KeepServing, DeleteInstances:
						f.Instances-- // somebody deletes them
						f.Stopped = false
					case Stop:
						f.Stopped = true
					case DeleteCRD:
						f.CRD = Terminating
					case AwaitCRD:
						f.CRD = Absent
					case Finish:
						done = true
					}
				}
				if !done {
					t.Errorf("%+v does not end: %+v", begin, f)
				}
			}
		}
	}
}
