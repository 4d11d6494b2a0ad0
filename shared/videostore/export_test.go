package videostore

// MaxPlans and PlansKnown are for the test of the bound.
const MaxPlans = maxPlans

func (s *Store) PlansKnown() int { return s.plans.Len() }
