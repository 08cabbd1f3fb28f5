// A modal dialog: the browser's own, so that focus stays inside and Escape closes it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "./basics.tsx";

export function Dialog(props: { title: string; close?: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    element.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={props.wide === true ? "wide" : undefined}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        props.close?.();
      }}
    >
      <header>
        <h2>{props.title}</h2>
        {props.close !== undefined && <Button kind="quiet" icon="close" label="Close" onClick={props.close} />}
      </header>
      {props.children}
    </dialog>
  );
}
