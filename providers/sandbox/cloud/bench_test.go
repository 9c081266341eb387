package cloud_test

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
)

// crowd is a cloud with so many roles.
func crowd(b *testing.B, n int) *site {
	s := open(b, nil)
	for i := range n {
		s.create(fmt.Sprintf("role-%d", i), cloud.Role{Trust: "x"})
	}
	return s
}

func BenchmarkGetAmong5000(b *testing.B) {
	s := crowd(b, 5000)
	for b.Loop() {
		s.get(cloud.Key{Type: cloud.TypeRole, Scope: scope, ID: "role-77"})
	}
}

func BenchmarkUpdateAmong5000(b *testing.B) {
	s := crowd(b, 5000)
	for b.Loop() {
		_, err := s.Update(cloud.UpdateRequest{Key: cloud.Key{Type: cloud.TypeRole, Scope: scope, ID: "role-77"}, Properties: cloud.Role{Trust: "y"}})
		s.must(err)
	}
}

func BenchmarkCreateAndDeleteAmong5000(b *testing.B) {
	s := crowd(b, 5000)
	for b.Loop() {
		_, err := s.Delete(cloud.DeleteRequest{Key: s.create("one", cloud.Network{CIDR: "10.0.0.0/16"})})
		s.must(err)
	}
}

func BenchmarkOpenWith5000(b *testing.B) {
	s := crowd(b, 5000)
	for b.Loop() {
		s.kill()
	}
}
