//! Which of two attempts with one token speaks for both. Pure.

use crate::failure::Failure;

/// Whether the answer to one attempt settles the other, too. A refusal speaks of its own attempt
/// alone: the other one may have been in time, or the first to pass a quota.
pub(crate) fn settles<T>(answer: &Result<T, Failure>) -> bool {
    matches!(answer, Ok(_) | Err(Failure::Late(_)))
}

/// What both answers together say.
pub(crate) fn together<T>(
    first: Result<T, Failure>,
    second: Result<T, Failure>,
) -> Result<T, Failure> {
    if weight(&second) > weight(&first) {
        second
    } else {
        first
    }
}

/// The answer that tells most about both stands: one that settles them, else one that leaves open
/// whether something was applied.
fn weight<T>(answer: &Result<T, Failure>) -> u8 {
    match answer {
        Ok(_) => 5,
        Err(Failure::Late(_)) => 4,
        Err(Failure::Unsettled { .. }) => 3,
        Err(Failure::OutcomeUnknown(_)) => 2,
        Err(Failure::Refused(_) | Failure::Denied(_)) => 1,
        Err(Failure::Unreachable { .. }) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Said;

    fn answers() -> Vec<Result<(), Failure>> {
        vec![
            Ok(()),
            Err(Failure::Late(Said::default())),
            Err(Failure::unsettled("no answer")),
            Err(Failure::OutcomeUnknown(Said::default())),
            Err(Failure::Refused(Said::default())),
        ]
    }

    #[test]
    fn what_may_have_been_applied_is_never_hidden_by_a_refusal_of_the_other() {
        for (worse, refused) in answers().iter().zip(&answers()[1..]) {
            for (first, second) in [(worse, refused), (refused, worse)] {
                assert_eq!(together(first.clone(), second.clone()), worse.clone());
            }
        }
    }

    #[test]
    fn only_success_and_a_refusal_as_late_need_no_second_answer() {
        let settling = answers().iter().filter(|answer| settles(answer)).count();
        assert_eq!(settling, 2);
        assert!(settles(&answers()[0]) && settles(&answers()[1]));
    }
}
