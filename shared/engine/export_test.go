package engine

// MaxPlans and PlansKnown are for the test of the bound.
const MaxPlans = maxPlans

// PlansKnown is how many plans are in memory.
func (s *Store[V, P]) PlansKnown() int { return s.plans.Len() }
