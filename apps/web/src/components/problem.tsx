/** Problem: an error message below a field; nothing if the message is empty. */

export function Problem({ message }: { readonly message: string }) {
  if (message === "") return null;
  return (
    <p class="problem" role="alert">
      {message}
    </p>
  );
}
