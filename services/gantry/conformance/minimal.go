package main

import (
	"regexp"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// maxDepth ends messages that contain themselves.
const maxDepth = 5

// minimal makes the smallest message that passes the rules in the protos, so that a probe gets as far as the handler.
func minimal(d protoreflect.MessageDescriptor) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	fill(m, 0)
	return m
}

func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
		switch oneof := field.ContainingOneof(); {
		case oneof != nil && !oneof.IsSynthetic() && m.WhichOneof(oneof) != nil, depth >= maxDepth:
		case field.IsList():
			for range rules.GetRepeated().GetMinItems() {
				m.Mutable(field).List().Append(value(m, field, rules.GetRepeated().GetItems(), depth))
			}
		case field.IsMap():
		case oneof != nil && !oneof.IsSynthetic(), required(rules):
			m.Set(field, value(m, field, rules, depth))
		}
	}
}

// required says whether the zero value breaks the rules.
func required(r *validate.FieldRules) bool {
	s := r.GetString()
	return r.GetRequired() || s.GetMinBytes() > 0 || s.GetMinLen() > 0 || len(s.GetIn()) > 0 || s.GetPattern() != "" && !matches(s.GetPattern(), "") ||
		r.GetInt32().GetGte() > 0 || r.GetInt64().GetGte() > 0 || r.GetInt32().GetGt() > 0 || r.GetInt64().GetGt() > 0 || r.GetBool().GetConst()
}

// value makes one value of a field.
func value(m protoreflect.Message, field protoreflect.FieldDescriptor, r *validate.FieldRules, depth int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		var v protoreflect.Value
		if field.IsList() {
			v = m.NewField(field).List().NewElement()
		} else {
			v = m.NewField(field)
		}
		fill(v.Message(), depth+1)
		return v
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text(r.GetString()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("x"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(max(1, r.GetInt32().GetGte()))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(max(1, r.GetInt64().GetGte()))
	}
	return field.Default()
}

// samples are texts for the patterns in the protos.
var samples = []string{"probe", strings.Repeat("0", 64), strings.Repeat("0", 32), "f_" + strings.Repeat("a", 26), "20260101T000000000Z-00000000", "0"}

// text makes a string that passes the rules.
func text(r *validate.StringRules) string {
	if len(r.GetIn()) > 0 {
		return r.GetIn()[0]
	}
	for _, s := range samples {
		if matches(r.GetPattern(), s) && uint64(len(s)) >= max(r.GetMinBytes(), r.GetMinLen()) && (r.GetMaxBytes() == 0 || uint64(len(s)) <= r.GetMaxBytes()) {
			return s
		}
	}
	return strings.Repeat("x", int(max(1, r.GetMinBytes(), r.GetMinLen())))
}

func matches(pattern, text string) bool {
	ok, err := regexp.MatchString(pattern, text)
	return err == nil && ok
}
