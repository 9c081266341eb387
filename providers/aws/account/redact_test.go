package account

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

func TestCredentialsCanBeComparedAndAreNotPrinted(t *testing.T) {
	r := &redactor{}
	p := r.provider(credentials.NewStaticCredentialsProvider("id", "very-secret-key", ""))
	if other := r.provider(p); p == other || (map[aws.CredentialsProvider]bool{p: true})[other] {
		t.Error("different providers are equal")
	}
	if text := fmt.Sprintf("%v %+v %#v", p, p, p); strings.Contains(text, "very-secret-key") {
		t.Error(text)
	}
}
